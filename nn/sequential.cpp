#include <algorithm>

#include "wick/nn/activation_checkpoint.h"
#include "wick/nn/detail/child_observer.h"
#include "wick/nn/module.h"

namespace wick::nn {

namespace {

using Children = std::vector<std::shared_ptr<Module>>;

Tensor run(const Children& children, const Tensor& x) {
  Tensor y = x;
  for (const auto& child : children) y = child->call(y);
  return y;
}

Tensor run_checkpointed(const Children& children, const Tensor& x,
                        const RecomputeOptions& options) {
  return checkpoint(
      options, [children](const Tensor& input) { return run(children, input); }, x);
}

Children in_range(const Sequential& layers, ChildRange range) {
  const auto all = layers.children();
  Children children;
  for (int64_t i = range.first; i < range.last; ++i) {
    children.push_back(all[static_cast<size_t>(i)].second);
  }
  return children;
}

}  // namespace

ChildObserver*& child_observer() {
  thread_local ChildObserver* observer = nullptr;
  return observer;
}

void Sequential::set_checkpointed(std::vector<ChildRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ChildRange& a, const ChildRange& b) { return a.first < b.first; });
  int64_t end = 0;
  for (const ChildRange& range : ranges) {
    WICK_CHECK(range.first >= end && range.first < range.last && range.last <= size(),
               "Sequential: set_checkpointed: got children ", range.first, " up to ", range.last,
               " of ", size(), ", expected ranges that are not empty and do not overlap");
    end = range.last;
  }
  checkpointed_ = std::move(ranges);
}

Tensor Sequential::forward(const Tensor& x) {
  const auto layers = children();
  Tensor y = x;
  auto range = checkpointed_.begin();
  ChildObserver* const observer = child_observer();
  for (int64_t i = 0; i < size();) {
    if (range != checkpointed_.end() && range->first == i) {
      y = run_checkpointed(in_range(*this, *range), y, {});
      i = range->last;
      ++range;
      continue;
    }
    if (observer != nullptr) observer->before(*this, i, y);
    y = layers[static_cast<size_t>(i)].second->call(y);
    if (observer != nullptr) observer->after(*this, i, y);
    ++i;
  }
  return y;
}

Tensor checkpoint_sequential(const Sequential& layers, int64_t segments, const Tensor& x,
                             const RecomputeOptions& options) {
  WICK_CHECK(segments >= 1 && segments <= layers.size(),
             "checkpoint_sequential: wrong number of segments: got ", segments,
             ", expected 1 to the number of children, ", layers.size());
  Tensor y = x;
  for (int64_t s = 0; s < segments; ++s) {
    const Children children =
        in_range(layers, {s * layers.size() / segments, (s + 1) * layers.size() / segments});
    y = s + 1 < segments ? run_checkpointed(children, y, options) : run(children, y);
  }
  return y;
}

}  // namespace wick::nn
