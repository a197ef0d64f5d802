#pragma once

#include <cstdint>
#include <optional>

namespace wick {

/// In brackets: an axis of size 1 at this place. In a Slice: no bound.
struct NoneType {
  operator std::optional<int64_t>() const { return {}; }
};
inline constexpr NoneType None{};

/// In brackets: as many whole axes as are needed.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis{};

/// In brackets: the elements from `start` to before `stop`, every `step`-th; negative bounds count
/// from the end, missing ones mean the whole. `Slice()`, `Slice(1)`, `Slice(1, -1)`,
/// `Slice(None, 3)`, `Slice(None, None, 2)`.
struct Slice {
  explicit Slice(std::optional<int64_t> start_in = {}, std::optional<int64_t> stop_in = {},
                 int64_t step_in = 1)
      : start(start_in), stop(stop_in), step(step_in) {}
  std::optional<int64_t> start, stop;
  int64_t step;
};

/// One entry between the brackets of `x[{...}]`: an integer, a Slice, None or Ellipsis.
class Index {
 public:
  enum class Kind : uint8_t { kInteger, kSlice, kNone, kEllipsis };

  Index(int64_t integer) : kind_(Kind::kInteger), integer_(integer) {}
  Index(int integer) : Index(static_cast<int64_t>(integer)) {}
  Index(const Slice& slice) : kind_(Kind::kSlice), slice_(slice) {}
  Index(NoneType) : kind_(Kind::kNone) {}
  Index(EllipsisType) : kind_(Kind::kEllipsis) {}

  Kind kind() const { return kind_; }            // which of the four
  int64_t integer() const { return integer_; }   // 0 for another kind
  const Slice& slice() const { return slice_; }  // Slice() for another kind

 private:
  Kind kind_;
  int64_t integer_ = 0;
  Slice slice_;
};

}  // namespace wick
