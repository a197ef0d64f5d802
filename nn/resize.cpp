#include "wick/nn/resize.h"

#include <sstream>

#include "wick/nn/detail/sizes_text.h"

namespace wick::nn {

Pad::Pad(const char* name, int axes, const Shape& padding, PadMode mode, double value)
    : name_(name), mode_(mode), value_(value) {
  WICK_CHECK(padding.rank() == 1 || padding.rank() == 2 * axes, name, ": padding needs 1 or ",
             2 * axes, " entries: got ", padding);
  for (int side = 0; side < 2 * axes; ++side) {
    pads_.push_back(padding[padding.rank() == 1 ? 0 : side]);
  }
}

std::string Pad::description() const {
  std::ostringstream value;
  if (mode_ == PadMode::kConstant && value_ != 0) value << ", value=" << value_;
  return concat(name_, "(", to_string(Shape(pads_)), value.str(), ")");
}

Upsample::Upsample(const UpsampleOptions& options) : options_(options) {
  WICK_CHECK(options.size.empty() != options.scale_factor.empty(),
             "Upsample: give either size or scale_factor");
}

Tensor Upsample::forward(const Tensor& x) {
  const UpsampleOptions& o = options_;
  if (!o.size.empty()) return interpolate(x, o.size, o.mode, o.align_corners);
  return interpolate_by(x, o.scale_factor, o.mode, o.align_corners, o.recompute_scale_factor);
}

std::string Upsample::description() const {
  const UpsampleOptions& o = options_;
  std::ostringstream text;
  text << "Upsample(";
  if (!o.size.empty()) text << "size=" << sizes_text(o.size);
  for (size_t i = 0; i < o.scale_factor.size(); ++i) {
    text << (i == 0 ? "scale_factor=" : "x") << o.scale_factor[i];
  }
  text << (o.align_corners ? ", align_corners)" : ")");
  return text.str();
}

}  // namespace wick::nn
