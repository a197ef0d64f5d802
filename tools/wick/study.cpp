#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/tools/wick/commands.h"

namespace wick::tool {

void run_study(char** words) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
  std::string program = (own.parent_path() / "wick-study").string();
  std::vector<char*> arguments = {program.data()};
  while (*words != nullptr) arguments.push_back(*words++);
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw Error(concat("study: cannot run ", program, ": ", std::strerror(errno),
                     ": ./wick study builds it (cmake --build --preset release --target "
                     "wick_study)"));
}

}  // namespace wick::tool
