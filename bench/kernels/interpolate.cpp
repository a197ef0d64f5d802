// Images resized to twice their size.
#include "wick/core/ops/interpolate.h"

#include "wick/bench/kernels/row.h"

namespace wick::bench::interpolate_rows {
namespace {

bool add_interpolation(const char* name, Interpolation mode) {
  return add_op({.name = concat("interpolate/", name),
                 .inputs =
                     [](const Setting& s) {
                       return Tensors{normal_images({s.some(32), 64, 56, 56})};
                     },
                 .call =
                     [=](const Tensors& x) {
                       return Tensors{interpolate(x[0], {112, 112}, mode)};
                     }});
}

[[maybe_unused]] const bool kInterpolations[] = {
    add_interpolation("nearest_2x", Interpolation::kNearest),
    add_interpolation("bilinear_2x", Interpolation::kBilinear),
};

}  // namespace
}  // namespace wick::bench::interpolate_rows
