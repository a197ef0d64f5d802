#include "wick/core/ops/pieces.h"

#include <algorithm>

#include "wick/core/apply.h"

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/view.h"

namespace wick {

namespace {

std::vector<Tensor> pieces_between(const Tensor& x, const std::vector<int64_t>& bounds,
                                   int64_t axis) {
  std::vector<Tensor> pieces;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    pieces.push_back(x.slice(axis, bounds[i], std::max(bounds[i], bounds[i + 1])));
  }
  return pieces;
}

std::vector<Tensor> in_equal_parts(const char* op, const Tensor& x, int64_t sections,
                                   int64_t axis) {
  WICK_CHECK(x.rank(op) > axis, op, ": too few axes: got shape ", x.shape(), ", expected ",
             axis + 1, " or more");
  WICK_CHECK(sections > 0 && x.size(axis) % sections == 0, op, ": sections: got ", sections,
             ", expected a divisor of ", x.size(axis));
  return tensor_split(x, sections, axis);
}
std::vector<Tensor> at_starts(const char* op, const Tensor& x, const std::vector<int64_t>& starts,
                              int64_t axis) {
  WICK_CHECK(x.rank(op) > axis, op, ": too few axes: got shape ", x.shape(), ", expected ",
             axis + 1, " or more");
  return tensor_split(x, starts, axis);
}
int64_t horizontal(const char* op, const Tensor& x) { return x.rank(op) == 1 ? 0 : 1; }

// Where a piece lies in the memory of a contiguous tensor.
struct Piece {
  int64_t offset;
  Shape shape, strides;
  static constexpr auto fields =
      std::tuple{field("offset", &Piece::offset), field("shape", &Piece::shape),
                 field("strides", &Piece::strides)};

  Tensor of(const Tensor& x) const { return detail::make_view(x, offset, shape, strides); }
};

// A contiguous copy of x with a piece replaced, and the piece of a contiguous x.
struct ReplacePiece : Piece {
  static constexpr OpInfo info{.name = "replace_piece"};
  static constexpr auto fields = Piece::fields;

  Tensor forward(Saved&, const Tensor& x, const Tensor& source) const {
    const Tensor y = empty(x.shape(), x.dtype(), x.device());
    y.copy_(x);
    of(y).copy_(source);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

struct TakePiece : Piece {
  static constexpr OpInfo info{.name = "take_piece"};
  static constexpr auto fields = Piece::fields;

  Tensor forward(Saved&, const Tensor& x) const { return of(x.contiguous()).clone(); }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor nothing = zeros(saved.input(0).shape, dy.dtype(), dy.device());
    return {apply(ReplacePiece{*this}, nothing, dy)};
  }
};

Gradients ReplacePiece::backward(const Saved& saved, const Tensor& dy) const {
  const Tensor nothing = zeros(shape, dy.dtype(), dy.device());
  return {saved.needs(0) ? apply(*this, dy, nothing) : Tensor(),
          saved.needs(1) ? apply(TakePiece{*this}, dy) : Tensor()};
}

// `cut` says which view of a tensor the piece is.
template <class Cut>
Tensor replaced(const char* op, const Tensor& x, const Tensor& source, const Cut& cut) {
  check_defined(op, x, source);
  Piece piece;
  {
    const NoGrad no_grad;
    const Tensor whole = x.contiguous(), part = cut(whole);
    const auto bytes =
        static_cast<const char*>(part.address()) - static_cast<const char*>(whole.address());
    piece = {bytes / static_cast<int64_t>(size_of(x.dtype())), part.shape(), part.strides()};
  }
  WICK_CHECK(piece.shape == source.shape(), op, ": source: got shape ", source.shape(),
             ", expected that of the piece, ", piece.shape);
  return apply(ReplacePiece{piece}, x, source.to(x.dtype()));
}

}  // namespace

std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t axis) {
  WICK_CHECK(sections > 0, "tensor_split: sections: got ", sections, ", expected 1 or more");
  const int64_t n = x.size(static_cast<int>(wrap_axis("tensor_split", axis, x.rank())));
  std::vector<int64_t> bounds{0};
  for (int64_t i = 0; i < sections; ++i) {
    bounds.push_back(bounds.back() + n / sections + (i < n % sections ? 1 : 0));
  }
  return pieces_between(x, bounds, axis);
}
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& starts,
                                 int64_t axis) {
  const int64_t n = x.size(static_cast<int>(wrap_axis("tensor_split", axis, x.rank())));
  std::vector<int64_t> bounds{0};
  for (const int64_t start : starts) {
    bounds.push_back(std::clamp<int64_t>(start < 0 ? start + n : start, 0, n));
  }
  bounds.push_back(n);
  return pieces_between(x, bounds, axis);
}

std::vector<Tensor> hsplit(const Tensor& x, int64_t sections) {
  return in_equal_parts("hsplit", x, sections, horizontal("hsplit", x));
}
std::vector<Tensor> hsplit(const Tensor& x, const std::vector<int64_t>& starts) {
  return at_starts("hsplit", x, starts, horizontal("hsplit", x));
}
std::vector<Tensor> vsplit(const Tensor& x, int64_t sections) {
  WICK_CHECK(x.rank() >= 2, "vsplit: too few axes: got shape ", x.shape(), ", expected 2 or more");
  return in_equal_parts("vsplit", x, sections, 0);
}
std::vector<Tensor> vsplit(const Tensor& x, const std::vector<int64_t>& starts) {
  WICK_CHECK(x.rank() >= 2, "vsplit: too few axes: got shape ", x.shape(), ", expected 2 or more");
  return at_starts("vsplit", x, starts, 0);
}
std::vector<Tensor> dsplit(const Tensor& x, int64_t sections) {
  return in_equal_parts("dsplit", x, sections, 2);
}
std::vector<Tensor> dsplit(const Tensor& x, const std::vector<int64_t>& starts) {
  return at_starts("dsplit", x, starts, 2);
}

Tensor slice_scatter(const Tensor& x, const Tensor& source, int64_t axis, int64_t start,
                     int64_t stop, int64_t step) {
  return replaced("slice_scatter", x, source,
                  [&](const Tensor& y) { return y.slice(axis, start, stop, step); });
}
Tensor select_scatter(const Tensor& x, const Tensor& source, int64_t axis, int64_t index) {
  return replaced("select_scatter", x, source,
                  [&](const Tensor& y) { return y.select(axis, index); });
}
Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset, int64_t axis0,
                        int64_t axis1) {
  return replaced("diagonal_scatter", x, source,
                  [&](const Tensor& y) { return diagonal(y, offset, axis0, axis1); });
}

}  // namespace wick
