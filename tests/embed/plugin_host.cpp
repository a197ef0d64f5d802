// Knows nothing of the library until it loads the plugin.
#include <dlfcn.h>

#include <cstdio>

int main(int, char** arguments) {
  void* plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    std::printf("plugin_host: %s\n", dlerror());
    return 1;
  }
  const auto seams = reinterpret_cast<int (*)()>(dlsym(plugin, "wick_seams"));
  return seams == nullptr ? 1 : seams();
}
