#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>

#include "wick/core/base/macros.h"

namespace wick {

inline constexpr int kMaxRank = 8;

/// The largest rank a tensor may have was exceeded.
[[noreturn]] void rank_too_large();

/// Up to eight sizes or strides, held without heap memory.
class Shape {
 public:
  Shape() = default;
  WICK_INLINE Shape(std::initializer_list<int64_t> values) {
    for (const int64_t v : values) push_back(v);
  }
  /// One number: `x.sum(1)`, `zeros(5)`.
  template <std::integral T>
  requires(!std::same_as<T, bool>) WICK_INLINE Shape(T value) {
    push_back(static_cast<int64_t>(value));
  }
  /// From a vector, span or array of int64.
  template <class Sizes>
  requires requires(const Sizes& sizes) {
    { sizes.data() } -> std::convertible_to<const int64_t*>;
    { sizes.size() } -> std::integral;
  }
  WICK_INLINE Shape(const Sizes& sizes) {
    const int64_t* values = sizes.data();
    for (decltype(sizes.size()) i = 0; i < sizes.size(); ++i) push_back(values[i]);
  }
  /// `rank` copies of `value`.
  WICK_INLINE static Shape filled(int rank, int64_t value) {
    Shape s;
    for (int i = 0; i < rank; ++i) s.push_back(value);
    return s;
  }

  WICK_INLINE int rank() const { return rank_; }         // number of axes
  WICK_INLINE int size() const { return rank_; }         // the same, as of a container
  WICK_INLINE bool empty() const { return rank_ == 0; }  // whether the rank is 0
  WICK_INLINE int64_t operator[](int axis) const { return values_[axis]; }
  WICK_INLINE int64_t& operator[](int axis) { return values_[axis]; }
  WICK_INLINE const int64_t* begin() const { return values_; }        // the first value
  WICK_INLINE const int64_t* end() const { return values_ + rank_; }  // behind the last value
  /// The value of the last axis. The rank must not be 0.
  WICK_INLINE int64_t back() const { return values_[rank_ - 1]; }

  /// Adds a last axis. Error at kMaxRank axes.
  WICK_INLINE void push_back(int64_t value) {
    if (rank_ == kMaxRank) rank_too_large();
    values_[rank_++] = value;
  }
  /// Puts `value` before axis `axis` (0 to rank).
  WICK_INLINE void insert(int axis, int64_t value) {
    push_back(value);
    for (int i = rank_ - 1; i > axis; --i) values_[i] = values_[i - 1];
    values_[axis] = value;
  }
  /// Removes axis `axis` (0 to rank - 1).
  WICK_INLINE void erase(int axis) {
    for (int i = axis; i + 1 < rank_; ++i) values_[i] = values_[i + 1];
    --rank_;
  }

  /// The product of all sizes; 1 for rank 0.
  WICK_INLINE int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= values_[i];
    return n;
  }

  friend WICK_INLINE bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a.values_[i] != b.values_[i]) return false;
    }
    return true;
  }
  /// As to_string.
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape);

 private:
  int64_t values_[kMaxRank] = {};
  int rank_ = 0;
};

/// Distances, in elements, between neighbours along each axis.
using Strides = Shape;

/// "[2, 3, 5]"
std::string to_string(const Shape& shape);

/// The shape that `a` and `b` broadcast to; `op` names the operation in the error.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// `axis` counted from the front: [-rank, rank) becomes [0, rank). A rank of 0 takes 0 and -1.
int wrap_axis(const char* op, int64_t axis, int rank);

/// Row-major strides of `shape`.
Strides contiguous_strides(const Shape& shape);

/// Strides of a rank-4 `shape` (N, C, H, W) stored N, H, W, C.
Strides channels_last_strides(const Shape& shape);

/// Whether `strides` walk `shape` densely in row-major order (axes of size 1 do not matter).
bool is_contiguous(const Shape& shape, const Strides& strides);

/// Whether `strides` are a permutation of row-major ones: every element has its own place and there
/// are no gaps.
bool is_dense(const Shape& shape, const Strides& strides);

/// Whether `strides` walk rank-4 `shape` densely in N, H, W, C order.
bool is_channels_last(const Shape& shape, const Strides& strides);

}  // namespace wick
