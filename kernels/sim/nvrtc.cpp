#include "wick/kernels/sim/nvrtc.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "wick/kernels/sim/module.h"
#include "wick/kernels/sim/simulator.h"

namespace fs = std::filesystem;

struct SimulatedProgram {
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // names and texts
  std::string log, code;
};

namespace {

std::atomic<int64_t> compiled = 0;

// The compiler that built this file, or the one that WICK_SIM_COMPILER names, and its options.
std::vector<std::string> compiler() {
  const char* const named = std::getenv("WICK_SIM_COMPILER");
  std::vector<std::string> words = {named == nullptr ? WICK_SIM_COMPILER : named};
  std::istringstream flags(WICK_SIM_FLAGS);
  for (std::string flag; flags >> flag;) words.push_back(flag);
  return words;
}

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

void write(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream(path, std::ios::binary) << text;
}

// Runs a program, whose words go to the file `log`. Whether it succeeded.
bool run(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    write(log, words[0] + ": " + std::strerror(error));
    return false;
  }
  int status = -1;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_injected(const char* call) {
  if (wick::sim::enter_call(call) == cudaSuccess) return false;
  (void)cudaGetLastError();  // NVRTC keeps none
  return true;
}

nvrtcResult give(const std::string& text, char* to) {
  std::copy(text.begin(), text.end(), to);
  return NVRTC_SUCCESS;
}

// Compiles it in `folder`, which is empty.
bool compile_in(const fs::path& folder, SimulatedProgram& program,
                const std::vector<std::string>& options) {
  for (const auto& [name, text] : program.headers) write(folder / name, text);
  write(folder / "source.cpp", program.source);
  std::vector<std::string> words = compiler();
  words.insert(words.end(), options.begin(), options.end());
  const fs::path object = folder / "object.so", log = folder / "log";
  words.insert(words.end(),
               {"-I" + folder.string(), (folder / "source.cpp").string(), "-o", object.string()});
  const bool is_compiled = run(words, log);
  program.log = read(log);
  if (!is_compiled) return false;
  const std::string bytes = read(object);
  const wick::sim::ModuleHead head{.bytes = bytes.size()};
  program.code.assign(reinterpret_cast<const char*>(&head), sizeof(head));
  program.code += bytes;
  return true;
}

}  // namespace

int64_t wick::sim::compilations() { return compiled; }

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_INTERNAL_ERROR: return "NVRTC_ERROR_INTERNAL_ERROR";
  }
  return "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (is_injected("nvrtcVersion")) return NVRTC_ERROR_INTERNAL_ERROR;
  std::string all = __VERSION__;
  for (const std::string& word : compiler()) all += " " + word;
  *major = 13;
  *minor = static_cast<int>(std::hash<std::string>()(all) & 0x7fffffff);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int headers,
                               const char* const* texts, const char* const* names) {
  if (is_injected("nvrtcCreateProgram")) return NVRTC_ERROR_INTERNAL_ERROR;
  *program = new SimulatedProgram{source, {}, {}, {}};
  for (int i = 0; i < headers; ++i) (*program)->headers.emplace_back(names[i], texts[i]);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int options, const char* const* words) {
  if (is_injected("nvrtcCompileProgram")) return NVRTC_ERROR_INTERNAL_ERROR;
  std::vector<std::string> definitions;
  for (int i = 0; i < options; ++i) {
    const std::string word = words[i];
    if (word.starts_with("-D")) {
      definitions.push_back(word);
    } else if (word != "--std=c++20" && word != "--device-as-default-execution-space" &&
               !word.starts_with("--gpu-architecture=sm_")) {
      return NVRTC_ERROR_INVALID_OPTION;
    }
  }
  std::string folder = fs::temp_directory_path() / "wick-nvrtc-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return NVRTC_ERROR_INTERNAL_ERROR;
  ++compiled;
  const bool is_compiled = compile_in(folder, *program, definitions);
  std::error_code error;
  fs::remove_all(folder, error);
  return is_compiled ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->log.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) { return give(program->log, log); }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->code.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) { return give(program->code, code); }
