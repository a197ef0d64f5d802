// Functions of masked elements.
#include "wick/core/ops/masked.h"

#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using X = const Tensor&;
using MaskedReduction = Tensor(X, X, const Shape&, bool);

std::vector<Spelling> of_masked(MaskedReduction* function) {
  return {{"input dim=null keepdim=false !dtype=null mask=null",
           [function](const std::vector<Argument>& a) {
             return results(function(read<Tensor>(a[0]), read<Tensor>(a[3]), read<Shape>(a[1]),
                                     read<bool>(a[2])));
           }}};
}

using MaskedPosition = Tensor(X, X, std::optional<int64_t>, bool);

// PyTorch gives positions in the input's dtype.
std::vector<Spelling> position_of_masked(MaskedPosition* function) {
  return {{"input dim=null keepdim=false !dtype=null mask=null",
           [function](const std::vector<Argument>& a) {
             const auto x = read<Tensor>(a[0]);
             return results(function(x, read<Tensor>(a[3]), read<std::optional<int64_t>>(a[1]),
                                     read<bool>(a[2]))
                                .to(x.dtype()));
           }}};
}

std::vector<Spelling> along_axis(Tensor (*function)(X, X, int64_t)) {
  return {{"input dim !dtype=null mask=null", [function](const std::vector<Argument>& a) {
             return results(function(read<Tensor>(a[0]), read<Tensor>(a[2]), a[1].integer()));
           }}};
}

using MaskedVariance = Tensor(X, X, const Shape&, double, bool);

std::vector<Spelling> spread_of_masked(MaskedVariance* function) {
  return {{"input dim=null unbiased=null correction=null keepdim=false !dtype=null mask=null",
           [function](const std::vector<Argument>& a) {
             const bool told = !a[3].value->is_null();
             const bool unbiased = a[2].value->is_null() || read<bool>(a[2]);
             const double correction = told ? a[3].number() : unbiased ? 1 : 0;
             return results(function(read<Tensor>(a[0]), read<Tensor>(a[5]), read<Shape>(a[1]),
                                     correction, read<bool>(a[4])));
           }}};
}

const Opinfo masked_ops({
    {"masked.sum", of_masked(masked::sum)},
    {"masked.prod", of_masked(masked::prod)},
    {"masked.mean", of_masked(masked::mean)},
    {"masked.amax", of_masked(masked::amax)},
    {"masked.amin", of_masked(masked::amin)},
    {"masked.logsumexp", of_masked(masked::logsumexp)},
    {"masked.argmax", position_of_masked(masked::argmax)},
    {"masked.argmin", position_of_masked(masked::argmin)},
    {"masked.var", spread_of_masked(masked::var)},
    {"masked.std", spread_of_masked(masked::stddev)},
    {"masked.softmax", along_axis(masked::softmax)},
    {"masked.softmin", along_axis(masked::softmin)},
    {"masked.log_softmax", along_axis(masked::log_softmax)},
    {"masked.cumsum", along_axis(masked::cumsum)},
    {"masked.cumprod", along_axis(masked::cumprod)},
    {"masked.norm",
     {call(
         +[](X x, double ord, const Shape& axes, bool keepdim, X mask) {
           return masked::norm(x, mask, ord, axes, keepdim);
         },
         "input ord=2.0 dim=null keepdim=false !dtype=null mask=null")}},
    {"masked.normalize",
     {call(
         +[](X x, double ord, int64_t axis, double eps, X mask) {
           return masked::normalize(x, mask, ord, axis, eps);
         },
         "input ord dim eps=1e-12 !dtype=null mask=null")}},
    {"masked.median",
     {call(
         +[](X x, int64_t axis, bool keepdim, X mask) {
           return masked::median(x, mask, axis, keepdim);
         },
         "input dim=-1 keepdim=false !dtype=null mask=null")}},
    {"masked.logaddexp", {call(masked::logaddexp, "input other input_mask=null other_mask=null")}},
});

}  // namespace
}  // namespace wick::golden
