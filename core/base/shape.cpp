#include "wick/core/base/shape.h"

#include <ostream>

#include "wick/core/base/check.h"

namespace wick {

void rank_too_large() { detail::fail("shape: too many axes: expected at most ", kMaxRank); }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += concat(shape[i]);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const int rank = a.rank() > b.rank() ? a.rank() : b.rank();
  Shape out = Shape::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    WICK_CHECK(x == y || x == 1 || y == 1, op, ": shapes do not broadcast: got ", a, " and ", b);
    out[rank - i] = x == 1 ? y : x;
  }
  return out;
}

int wrap_axis(const char* op, int64_t axis, int rank) {
  const int64_t limit = rank == 0 ? 1 : rank;
  WICK_CHECK(axis >= -limit && axis < limit, op, ": axis out of range: got ", axis,
             ", expected one in [", -limit, ", ", limit - 1, "]");
  return static_cast<int>(axis < 0 ? axis + limit : axis);
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Shape::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    strides[i] = strides[i + 1] * (shape[i + 1] > 1 ? shape[i + 1] : 1);
  }
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  const int64_t c = shape[1] > 1 ? shape[1] : 1;
  const int64_t w = shape[3] > 1 ? shape[3] : 1;
  const int64_t h = shape[2] > 1 ? shape[2] : 1;
  return {h * w * c, 1, w * c, c};
}

namespace {
bool same_walk(const Shape& shape, const Strides& strides, const Strides& wanted) {
  if (shape.numel() == 0) return true;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1 && strides[i] != wanted[i]) return false;
  }
  return true;
}
}  // namespace

bool is_contiguous(const Shape& shape, const Strides& strides) {
  return same_walk(shape, strides, contiguous_strides(shape));
}

bool is_dense(const Shape& shape, const Strides& strides) {
  bool seen[kMaxRank] = {};
  int64_t expected = 1;
  int left = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    seen[i] = shape[i] == 1;
    if (!seen[i]) ++left;
  }
  for (; left > 0; --left) {
    int next = -1;
    for (int i = 0; i < shape.rank(); ++i) {
      if (!seen[i] && strides[i] == expected) next = i;
    }
    if (next < 0) return false;
    seen[next] = true;
    expected *= shape[next];
  }
  return true;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  return shape.rank() == 4 && same_walk(shape, strides, channels_last_strides(shape));
}

}  // namespace wick
