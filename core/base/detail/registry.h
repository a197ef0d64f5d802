#pragma once

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "wick/core/base/check.h"

namespace wick {

/// How a registry lists its names.
enum class RegistryOrder { kAsRegistered, kByName };

/// Entries by name, to which a program adds its own. An Entry has a member `name`. Any thread may
/// call any function; entries stay where they are.
template <class Entry>
class Registry {
 public:
  /// `what` names the kind of entry in errors: "model".
  Registry(const char* what, std::deque<Entry> entries,
           RegistryOrder order = RegistryOrder::kAsRegistered)
      : what_(what), entries_(std::move(entries)), order_(order) {}

  /// Error if the name is empty or taken.
  void add(Entry entry) {
    const std::lock_guard lock(mutex_);
    WICK_CHECK(!entry.name.empty(), what_, ": register: got an empty name, expected one");
    WICK_CHECK(look_up(entry.name) == nullptr, what_, ": register: got the name ", entry.name,
               ", which is taken, expected another");
    entries_.push_back(std::move(entry));
  }
  /// Error that lists the names where there is no such entry.
  const Entry& find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const Entry* found = look_up(name);
    WICK_CHECK(found != nullptr, what_, ": unknown name: got \"", name, "\", expected one of ",
               listed());
    return *found;
  }
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    return ordered_names();
  }

 private:
  const Entry* look_up(const std::string& name) const {
    for (const Entry& entry : entries_) {
      if (entry.name == name) return &entry;
    }
    return nullptr;
  }
  std::vector<std::string> ordered_names() const {
    std::vector<std::string> all;
    for (const Entry& entry : entries_) all.emplace_back(entry.name);
    if (order_ == RegistryOrder::kByName) std::sort(all.begin(), all.end());
    return all;
  }
  std::string listed() const {
    std::string list;
    for (const std::string& name : ordered_names()) list += (list.empty() ? "" : ", ") + name;
    return list;
  }

  const char* what_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  RegistryOrder order_;
};

}  // namespace wick
