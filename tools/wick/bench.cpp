#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/tools/wick/commands.h"

namespace wick::tool {

void run_bench(std::vector<std::string> words) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
  std::string program = (own.parent_path() / "wick-bench").string();
  std::vector<char*> arguments = {program.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw Error(concat("bench: cannot run ", program, ": ", std::strerror(errno),
                     ": ./wick bench builds it (cmake --build --preset release --target "
                     "wick_bench)"));
}

}  // namespace wick::tool
