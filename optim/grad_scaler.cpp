#include "wick/optim/grad_scaler.h"

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/detail/capture.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/trace.h"
#include "wick/core/sparse_rows.h"
#include "wick/optim/detail/gradient_norm.h"

namespace wick::amp {

using optim::Optimizer;
using optim::StateDict;

namespace {

std::vector<Tensor> all_params(const Optimizer& optimizer) {
  std::vector<Tensor> all;
  for (int g = 0; g < optimizer.num_groups(); ++g) {
    all.insert(all.end(), optimizer.params(g).begin(), optimizer.params(g).end());
  }
  return all;
}

void check_scale(double scale) {
  WICK_CHECK(std::isfinite(scale) && scale > 0, "grad_scaler: scale: got ", scale,
             ", expected a finite value above 0");
}

void check_options(const GradScalerOptions& o) {
  check_scale(o.init_scale);
  WICK_CHECK(std::isfinite(o.growth_factor) && o.growth_factor > 1,
             "grad_scaler: growth_factor: got ", o.growth_factor, ", expected more than 1");
  WICK_CHECK(o.backoff_factor > 0 && o.backoff_factor < 1, "grad_scaler: backoff_factor: got ",
             o.backoff_factor, ", expected a value between 0 and 1");
  WICK_CHECK(o.growth_interval > 0 && o.growth_interval <= INT32_MAX,
             "grad_scaler: growth_interval: got ", o.growth_interval, ", expected 1 or more");
  WICK_CHECK(std::isfinite(o.min_scale) && o.min_scale >= 0, "grad_scaler: min_scale: got ",
             o.min_scale, ", expected 0 or more");
  WICK_CHECK(o.max_skips >= 0, "grad_scaler: max_skips: got ", o.max_skips, ", expected 0 or more");
}

}  // namespace

GradScaler::GradScaler(const Options& options) : options_(options) { check_options(options); }

void GradScaler::require_scale(const char* function) const {
  WICK_CHECK(scale_.defined(), "grad_scaler: ", function,
             " before any scale(): the loss that was differentiated was not scaled");
}

void GradScaler::start(Device device) {
  const NoGrad no_grad;
  if (!scale_.defined()) {
    // All or none of them, if memory is short.
    const Tensor scale = empty({}, kFloat32, device), tracker = empty({}, kInt32, device),
                 any_inf = empty({}, kFloat32, device), counts = empty({2}, kInt64, device);
    scale_ = scale;
    growth_tracker_ = tracker;
    any_inf_ = any_inf;
    counts_ = counts;
  }
  scale_.fill_(options_.init_scale);
  growth_tracker_.fill_(init_growth_tracker_);
  any_inf_.fill_(0);
  counts_[0].fill_(init_skips_);
  counts_[1].fill_(init_updates_);
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!enabled()) return loss;
  if (!scale_.defined()) {
    refuse_in_capture(loss.device(), "be the first to use a scaler");
    start(loss.device());
  }
  WICK_CHECK(loss.device() == scale_.device(), "grad_scaler: scale: the loss is on ", loss.device(),
             ", the scale on ", scale_.device(), ": use one scaler per device");
  return loss.mul(scale_);
}

std::vector<Tensor> GradScaler::scale(const std::vector<Tensor>& losses) {
  std::vector<Tensor> scaled;
  for (const Tensor& loss : losses) scaled.push_back(scale(loss));
  return scaled;
}

void GradScaler::look(Optimizer& optimizer, Seen& seen, bool unscale) {
  optim::Sharding* const sharding = optimizer.sharding();
  for (int g = 0; g < optimizer.num_groups(); ++g) {
    const std::vector<Tensor>& params = optimizer.params(g);
    for (size_t i = 0; i < params.size(); ++i) {
      const Tensor& param = params[i];
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;
      WICK_CHECK(!unscale || grad.dtype() != kFloat16,
                 "grad_scaler: unscale_: gradients are float16, which division by the scale would "
                 "let vanish: call step() alone");
      WICK_CHECK(grad.device() == scale_.device(), "grad_scaler: a gradient is on ", grad.device(),
                 ", the scale on ", scale_.device(), ": use one scaler per device");
      seen.params.push_back(param);
      seen.sizes.push_back(gradient_elements(grad).numel());
      seen.wholes.push_back(sharding != nullptr ? sharding->parameter(g, i) : param);
    }
  }
  WICK_CHECK(!seen.params.empty(), "grad_scaler: no parameter of the optimizer has a gradient");
  Tensor& first = first_[&optimizer];
  if (!first.defined()) first = empty({}, kInt64, scale_.device());
  GradientNormArgs more;
  more.any_inf = any_inf_.data<float>();
  more.first = first.data<int64_t>();
  const optim::GradientNorm result =
      optim::gradient_norm("grad_scaler", seen.params, scale_, unscale, more);
  if (sharding != nullptr) {
    sharding->combine(result.norm, result.found_inf);
    const NoGrad no_grad;
    any_inf_.copy_(any_inf_.maximum(result.found_inf));
  }
  seen.found_inf = result.found_inf;
  seen.norm = result.norm;
  seen.first = first;
  seen.captured = capture_of(scale_.device()) != nullptr;
}

void GradScaler::forget_captured() {
  if (capture_of(scale_.device()) != nullptr) return;
  std::erase_if(seen_, [](const auto& entry) { return entry.second.captured; });
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!enabled()) return;
  if (graph::is_tracing()) {
    const auto again = [this, &optimizer](const std::vector<Tensor>&) {
      unscale_(optimizer);
      return Tensor();
    };
    graph::host_call("grad_scaler.unscale_", again, all_params(optimizer));
    return;
  }
  require_scale("unscale_()");
  forget_captured();
  const Stage stage = seen_[&optimizer].stage;
  WICK_CHECK(stage != Stage::kUnscaled,
             "grad_scaler: unscale_() twice for an optimizer since the last update()");
  WICK_CHECK(stage != Stage::kStepped,
             "grad_scaler: unscale_() after step(): expected update() in between");
  Seen seen;
  look(optimizer, seen, /*unscale=*/true);
  seen.stage = Stage::kUnscaled;
  seen_[&optimizer] = std::move(seen);
}

Tensor GradScaler::step(Optimizer& optimizer, std::optional<double> max_norm) {
  if (!enabled()) return optimizer.step({.max_norm = max_norm});
  if (graph::is_tracing()) {
    const auto again = [this, &optimizer, max_norm](const std::vector<Tensor>&) {
      return step(optimizer, max_norm);
    };
    return graph::host_call("grad_scaler.step", again, all_params(optimizer));
  }
  require_scale("step()");
  forget_captured();
  Seen seen = seen_[&optimizer];
  WICK_CHECK(seen.stage != Stage::kStepped,
             "grad_scaler: step() twice for an optimizer since the last update()");
  optim::StepControl control;
  control.max_norm = max_norm;
  if (seen.stage == Stage::kReady) {
    seen = {};
    look(optimizer, seen, /*unscale=*/false);
    control.grad_scale = scale_;
    control.grad_norm = seen.norm;
  }
  control.found_inf = seen.found_inf;
  Tensor norm = optimizer.step(control);  // for lack of memory it may have to be called again
  seen.stage = Stage::kStepped;
  seen_[&optimizer] = std::move(seen);
  return norm;
}

Tensor GradScaler::found_inf(const Optimizer& optimizer) const {
  if (graph::is_tracing()) {
    const auto again = [this, &optimizer](const std::vector<Tensor>&) {
      return found_inf(optimizer);
    };
    return graph::host_call("grad_scaler.found_inf", again, {});
  }
  const auto found = seen_.find(&optimizer);
  WICK_CHECK(found != seen_.end() && found->second.found_inf.defined(),
             "grad_scaler: found_inf: neither step() nor unscale_() of this optimizer since the "
             "last update()");
  return found->second.found_inf;
}

void GradScaler::finish_iteration() {
  last_.clear();
  for (auto& [optimizer, seen] : seen_) {
    if (seen.found_inf.defined()) last_.push_back(std::move(seen));
  }
  seen_.clear();
}

void GradScaler::update() {
  if (!enabled()) return;
  if (graph::is_tracing()) {
    const auto again = [this](const std::vector<Tensor>&) {
      update();
      return Tensor();
    };
    graph::host_call("grad_scaler.update", again, {}, {scale_});
    return;
  }
  require_scale("update()");
  bool any = false;
  for (const auto& [optimizer, seen] : seen_) any = any || seen.found_inf.defined();
  WICK_CHECK(any, "grad_scaler: update(): no gradients were looked at since the last one");
  const GradScaleUpdate change{
      scale_.data<float>(),   growth_tracker_.data<int32_t>(),
      any_inf_.data<float>(), counts_.data<int64_t>(),
      options_.growth_factor, options_.backoff_factor,
      options_.min_scale,     static_cast<int32_t>(options_.growth_interval)};
  WICK_DISPATCH(scale_.device(), grad_scale_update(scale_.device(), change));
  finish_iteration();
  if (options_.max_skips == 0 || capture_of(scale_.device()) != nullptr) return;
  scale_.device().is_cpu() ? check_skips() : poll_skips();
}

void GradScaler::update(double new_scale) {
  if (!enabled()) return;
  require_scale("update()");
  refuse_in_capture(scale_.device(), "set the scale, which each replay would set");
  check_scale(new_scale);
  const NoGrad no_grad;
  scale_.fill_(new_scale);
  any_inf_.fill_(0);
  counts_[1].add_(1);
  finish_iteration();
}

void GradScaler::poll_skips() {
  if (pending_ && pending_->copied.query()) {
    const Tensor counts = pending_->counts;
    pending_.reset();
    judge_skips(counts);
  }
  if (pending_) return;
  const NoGrad no_grad;
  pending_ = Pending{counts_.to(kCpu, /*non_blocking=*/true), Event(scale_.device())};
  pending_->copied.record();
}

void GradScaler::check_skips() {
  if (!enabled() || !counts_.defined() || options_.max_skips == 0) return;
  judge_skips(counts_.to(kCpu));
}

std::string GradScaler::first_non_finite() const {
  for (const Seen& seen : last_) {
    int64_t chunk = seen.first.item<int64_t>();
    if (chunk < 0) continue;
    for (size_t i = 0; i < seen.params.size(); ++i) {
      chunk -= (seen.sizes[i] + kGradNormChunk - 1) / kGradNormChunk;
      if (chunk >= 0) continue;
      std::string name = concat("number ", i);
      for (const auto& [known, tensor] : names_) {
        if (tensor.is_same(seen.wholes[i])) name = known;
      }
      return concat("the gradient of parameter ", name, ", of shape ", seen.wholes[i].shape());
    }
  }
  return "a gradient";
}

void GradScaler::judge_skips(const Tensor& counts) const {
  const int64_t skips = counts.data<int64_t>()[0], step = counts.data<int64_t>()[1];
  if (skips <= options_.max_skips) return;
  throw NonFiniteGradients(
      concat("grad_scaler: ", skips, " steps in a row were skipped, up to step ", step, ": ",
             first_non_finite(), ", is the first that is not finite; the scale is ", get_scale(),
             ", and max_skips is ", options_.max_skips));
}

double GradScaler::get_scale() const {
  if (!enabled()) return 1;
  return scale_.defined() ? scale_.item() : options_.init_scale;
}

int64_t GradScaler::growth_tracker() const {
  return growth_tracker_.defined() ? growth_tracker_.item<int64_t>() : init_growth_tracker_;
}

StateDict GradScaler::state_dict() const {
  if (!enabled()) return {};
  const auto count = [&](int64_t which, int64_t at_first) {
    return counts_.defined() ? counts_[which].item<int64_t>() : at_first;
  };
  return {{"scale", scalar_tensor(get_scale(), kFloat64)},
          {"growth_factor", scalar_tensor(options_.growth_factor, kFloat64)},
          {"backoff_factor", scalar_tensor(options_.backoff_factor, kFloat64)},
          {"growth_interval", scalar_tensor(options_.growth_interval, kInt64)},
          {"_growth_tracker", scalar_tensor(growth_tracker(), kInt64)},
          {"skips", scalar_tensor(count(0, init_skips_), kInt64)},
          {"updates", scalar_tensor(count(1, init_updates_), kInt64)}};
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!enabled()) return;
  WICK_CHECK(!state.empty(),
             "grad_scaler: load_state_dict: the state is empty: it is that of a disabled scaler");
  const auto entry = [&](const char* name) {
    const auto found = state.find(name);
    WICK_CHECK(found != state.end(), "grad_scaler: load_state_dict: missing ", name);
    return found->second;
  };
  Options loaded = options_;
  loaded.init_scale = entry("scale").item();
  loaded.growth_factor = entry("growth_factor").item();
  loaded.backoff_factor = entry("backoff_factor").item();
  loaded.growth_interval = entry("growth_interval").item<int64_t>();
  const int64_t tracker = entry("_growth_tracker").item<int64_t>();
  const auto count = [&](const char* name) {
    const int64_t loaded_count = state.contains(name) ? entry(name).item<int64_t>() : 0;
    WICK_CHECK(loaded_count >= 0, "grad_scaler: load_state_dict: ", name, ": got ", loaded_count,
               ", expected 0 or more");
    return loaded_count;
  };
  const int64_t skips = count("skips"), updates = count("updates");
  check_options(loaded);
  // From the interval on it would never be met, and the scale never grow.
  WICK_CHECK(tracker >= 0 && tracker < loaded.growth_interval,
             "grad_scaler: load_state_dict: _growth_tracker: got ", tracker,
             ", expected 0 or more, and less than the growth_interval of ", loaded.growth_interval);
  options_ = loaded;
  init_growth_tracker_ = tracker;
  init_skips_ = skips;
  init_updates_ = updates;
  seen_.clear();  // of an iteration that may have ended in the middle
  pending_.reset();
  if (scale_.defined()) start(scale_.device());
}

}  // namespace wick::amp
