// Knows nothing of the library until it loads the plugins: each in a process of its own, then all
// in one, where each trains on a thread of its own. The bytes must be the same.
//   plugin_host FOLDER PLUGIN...
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace {

template <class Function>
Function* function_of(const char* path, const char* name) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) std::printf("plugin_host: %s\n", dlerror());
  void* function = plugin == nullptr ? nullptr : dlsym(plugin, name);
  if (function == nullptr) std::exit(1);
  return reinterpret_cast<Function*>(function);
}

uint64_t train(const char* path, int model, const std::string& folder) {
  std::filesystem::create_directories(folder);
  return function_of<uint64_t(int, const char*)>(path, "wick_train")(model, folder.c_str());
}

// What train() gives in a process that loads no other plugin.
uint64_t train_alone(const char* path, int model, const std::string& folder) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t digest = train(path, model, folder);
    std::exit(write(ends[1], &digest, sizeof digest) == sizeof digest ? 0 : 1);
  }
  close(ends[1]);
  uint64_t digest = 0;
  int status = 1;
  const bool read_all = read(ends[0], &digest, sizeof digest) == sizeof digest;
  close(ends[0]);
  return waitpid(child, &status, 0) == child && status == 0 && read_all ? digest : 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string folder = arguments[1];
  const std::vector<const char*> plugins(arguments + 2, arguments + count);
  const size_t number = plugins.size();
  std::vector<uint64_t> alone(number), together(number);
  for (size_t i = 0; i < number; ++i) {
    alone[i] = train_alone(plugins[i], static_cast<int>(i), folder + "/alone" + std::to_string(i));
  }
  for (const char* path : plugins) {
    if (function_of<int()>(path, "wick_seams")() != 0) return 1;
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < number; ++i) {
    threads.emplace_back([&, i] {
      together[i] =
          train(plugins[i], static_cast<int>(i), folder + "/together" + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  bool same = true;
  for (size_t i = 0; i < number; ++i) {
    std::printf("model %zu: %016llx, beside others %016llx\n", i,
                static_cast<unsigned long long>(alone[i]),
                static_cast<unsigned long long>(together[i]));
    same = same && alone[i] != 0 && together[i] == alone[i];
  }
  return same ? 0 : 1;
}
