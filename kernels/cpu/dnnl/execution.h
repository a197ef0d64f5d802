#pragma once

// What the kernels on oneDNN share. Private to this folder.

#include <array>
#include <dnnl.hpp>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/view.h"
#include "wick/core/base/workspace.h"

namespace wick::cpu {

using MemoryDesc = dnnl::memory::desc;
using DataType = dnnl::memory::data_type;

dnnl::engine& dnnl_engine();
DataType dnnl_type(Dtype dtype);
/// Whether oneDNN uses the instruction set `isa` on this processor.
bool dnnl_has(dnnl::cpu_isa isa);
/// Whether oneDNN computes in bfloat16 on this processor (it needs AVX-512).
bool dnnl_has_bfloat16();
/// An attribute under which the caller provides the scratchpad.
dnnl::primitive_attr user_scratchpad();
/// Whether the implementation is oneDNN's reference code, hundreds of times slower than any other.
bool is_reference(const dnnl::primitive_desc_base& primitive);

/// A primitive with its memory objects, and with reorders of those arguments that the caller stores
/// otherwise than the primitive wants them. Not to be shared between threads.
class Execution {
 public:
  Execution() = default;
  Execution(dnnl::primitive primitive, const MemoryDesc& scratchpad);

  /// Declares argument `arg` (DNNL_ARG_...), stored by the caller as `user`, wanted as `wanted`.
  /// The order of the declarations is the order of the pointers given to run().
  void input(int arg, const MemoryDesc& user, const MemoryDesc& wanted);
  void output(int arg, const MemoryDesc& user, const MemoryDesc& wanted);
  void run(std::initializer_list<const void*> data, Workspace& workspace);

 private:
  struct Argument {
    dnnl::memory user;
    dnnl::memory wanted;
    dnnl::reorder reorder;
    bool reordered = false;
    bool is_output = false;
  };
  void add(int arg, const MemoryDesc& user, const MemoryDesc& wanted, bool is_output);

  dnnl::primitive primitive_;
  dnnl::memory scratchpad_;
  std::unordered_map<int, dnnl::memory> memories_;
  std::vector<Argument> arguments_;
  std::vector<void*> blocks_;  // scratch of the run in progress
};

/// The identity of a primitive: the numbers that its creation depends on.
class PrimitiveKey {
 public:
  template <class... Values>
  PrimitiveKey(Values... values) {
    (add(values), ...);
  }
  void add(int64_t value) { values_[static_cast<size_t>(size_++)] = value; }
  template <class T>
  requires(!std::is_same_v<T, int64_t>) void add(T value) { add(static_cast<int64_t>(value)); }
  void add(const Shape& shape) {
    add(int64_t{shape.rank()});
    for (const int64_t v : shape) add(v);
  }
  size_t hash() const;
  friend bool operator==(const PrimitiveKey& a, const PrimitiveKey& b) {
    return a.size_ == b.size_ && a.values_ == b.values_;
  }

 private:
  std::array<int64_t, 48> values_{};
  int size_ = 0;
};

/// The most recently used `Entry` objects of one thread, by key.
template <class Entry>
class PrimitiveCache {
 public:
  static constexpr size_t kCapacity = 512;

  template <class Make>
  Entry& get(const PrimitiveKey& key, const Make& make) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return entries_.front().second;
    }
    entries_.emplace_front(key, make());
    index_.emplace(key, entries_.begin());
    if (entries_.size() > kCapacity) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }

 private:
  struct Hash {
    size_t operator()(const PrimitiveKey& key) const { return key.hash(); }
  };
  std::list<std::pair<PrimitiveKey, Entry>> entries_;
  std::unordered_map<PrimitiveKey, typename decltype(entries_)::iterator, Hash> index_;
};

/// Runs `body`, turning oneDNN's errors into ours.
template <class Body>
void with_dnnl_errors(const char* op, const Body& body) {
  try {
    body();
  } catch (const dnnl::error& error) {
    detail::fail(op, ": oneDNN failed: ", error.message, " (status ",
                 static_cast<int64_t>(error.status), ")");
  }
}

}  // namespace wick::cpu
