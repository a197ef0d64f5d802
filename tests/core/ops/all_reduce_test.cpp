#include "wick/dist/all_reduce.h"

#include "wick/tests/harness/op_case.h"

// Among ranks it is tested in tests/dist; here it is an op like others.
namespace wick::testing {
namespace {

WICK_OP_CASE(
    all_reduce_sum_alone, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors {
      return {dist::all_reduce_sum(x[0], dist::make_local_groups(1)[0])};
    },
    .reference = elementwise([](double v) { return v; }), .second_order = true, .storable = false);

}  // namespace
}  // namespace wick::testing
