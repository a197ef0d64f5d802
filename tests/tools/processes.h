#pragma once

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace wick::tool {

/// Whether `condition` comes to hold within a minute.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// The letter by which the system calls the state of a process; 0 where there is none.
inline char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');  // of the program's name
  return end == std::string::npos ? '\0' : text[end + 2];
}

/// Whether a process has ended, waited for or not.
inline bool is_gone(pid_t pid) {
  const char state = state_of(pid);
  return state == '\0' || state == 'Z' || state == 'X';
}

/// The number that a process writes to `path`, with a line's end, once it does.
inline pid_t number_in(const std::string& path) {
  std::string line;
  comes_true([&] {
    std::ifstream file(path);
    return std::getline(file, line) && !file.eof();
  });
  return std::stoi(line);
}

/// Whether `path` comes to be there.
inline bool appears(const std::string& path) {
  return comes_true([&] { return std::filesystem::exists(path); });
}

}  // namespace wick::tool
