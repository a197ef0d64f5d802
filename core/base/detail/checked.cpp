#include "wick/core/base/detail/checked.h"

#include "wick/core/base/check.h"

namespace wick {

int64_t checked_add(const char* op, int64_t a, int64_t b) {
  int64_t sum = 0;
  WICK_CHECK(!__builtin_add_overflow(a, b, &sum), op, ": sizes are too large: got ", a, " and ", b);
  return sum;
}

int64_t checked_mul(const char* op, int64_t a, int64_t b) {
  int64_t product = 0;
  WICK_CHECK(!__builtin_mul_overflow(a, b, &product), op, ": sizes are too large: got ", a, " and ",
             b);
  return product;
}

int64_t checked_numel(const char* op, const Shape& shape) {
  int64_t span = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    WICK_CHECK(size >= 0, op, ": negative size: got shape ", shape,
               ", expected sizes of 0 or more");
    empty = empty || size == 0;
    const bool fits = size == 0 || span <= kMaxNumel / size;
    WICK_CHECK(fits, op, ": shape too large: got ", shape, ", expected at most 2^58 elements");
    span *= size == 0 ? 1 : size;
  }
  return empty ? 0 : span;
}

}  // namespace wick
