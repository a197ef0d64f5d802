#include "wick/dist/all_reduce.h"

#include "wick/core/apply.h"

namespace wick::dist {

namespace {

struct AllReduceSum {
  static constexpr OpInfo info{.name = "all_reduce_sum", .exchanges = true};
  std::shared_ptr<ProcessGroup> group;
  static constexpr auto fields = std::tuple{field("group", &AllReduceSum::group)};

  Tensor forward(Saved&, const Tensor& x) const {
    WICK_CHECK(group, "all_reduce_sum: no group: got one without ranks, expected a process group");
    const Tensor y = x.clone(MemoryFormat::kContiguous);  // whatever other ranks' layouts are
    if (y.numel() > 0) group->all_reduce(y).wait();
    return y;
  }
  Gradients backward(const Saved&, const Tensor& dy) const {
    return {apply(AllReduceSum{group}, dy)};
  }
};

}  // namespace

Tensor all_reduce_sum(const Tensor& x, const std::shared_ptr<ProcessGroup>& group) {
  WICK_CHECK(x.defined() && is_floating(x.dtype()), "all_reduce_sum: expected a floating tensor");
  return apply(AllReduceSum{group}, x);
}

}  // namespace wick::dist
