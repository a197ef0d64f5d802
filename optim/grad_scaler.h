#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wick/core/stream.h"
#include "wick/optim/optimizer.h"

namespace wick::amp {

/// Too many steps in a row were skipped: the text names the step and the first gradient that was
/// not finite.
class NonFiniteGradients : public Error {
 public:
  using Error::Error;
};

/// Options of GradScaler, with the defaults of torch.amp.GradScaler. Error for a factor outside its
/// range, an `init_scale` of 0 or less, or a `growth_interval` below 1.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;        // more than 1
  double backoff_factor = 0.5;     // between 0 and 1
  int64_t growth_interval = 2000;  // steps without infinities before the scale grows
  bool enabled = true;             // if not, everything here does nothing
  double min_scale = 0;            // the scale never backs off below it
  int64_t max_skips = 0;           // more steps skipped in a row are an error; 0: any number
};

/// Keeps float16 gradients from vanishing (Micikevicius et al. 2017, arXiv 1710.03740), as
/// PyTorch's torch.amp.GradScaler does. The loss is multiplied by a scale, and the gradients are
/// divided by it within the update. A step whose gradients are not all finite changes nothing. The
/// scale backs off after such a step, and grows after many without. Scale and counts are on the
/// device of the loss, and nothing here waits for it unless it says so.
///
///   amp::GradScaler scaler;
///   scaler.scale(loss).backward();
///   scaler.step(optimizer, /*max_norm=*/1.0);
///   scaler.update();
///
/// Several losses and optimizers share one scaler, with one update() per iteration. What else a
/// skipped step must not change goes by found_inf(): see optim::Rollback. All that share one are on
/// one device: it keeps no copies of its scale for others, as PyTorch's does for a model cut over
/// several GPUs. Ranks of data parallelism have one each, and all see the same.
class GradScaler {
 public:
  using Options = GradScalerOptions;
  explicit GradScaler(const Options& options = {});

  /// Whether losses are scaled; if not, step() is the plain step of the optimizer.
  bool enabled() const { return options_.enabled; }
  /// The loss times the scale. The first call decides the scaler's device.
  Tensor scale(const Tensor& loss);
  /// Each of the losses times the scale.
  std::vector<Tensor> scale(const std::vector<Tensor>& losses);
  /// Divides the gradients of the optimizer's parameters by the scale, in place: for those who want
  /// to see or change them before step(). Error if they are float16, if it was done since the last
  /// update(), or after step().
  void unscale_(optim::Optimizer& optimizer);
  /// Takes a step of the optimizer, or none if a gradient was not finite. With `max_norm`,
  /// gradients are clipped to it within the update; returns their norm then (float64, rank 0, on
  /// the device), else an undefined tensor. Error if a step was taken since the last update(), or
  /// if there are no gradients.
  Tensor step(optim::Optimizer& optimizer, std::optional<double> max_norm = {});
  /// Adjusts the scale, once per iteration and after all steps. Error if no gradients were looked
  /// at since the last one. On a GPU, whether too many steps in a row were skipped is known some
  /// calls later, as the host does not wait, and with steps that are replayed only by
  /// check_skips().
  void update();
  /// Sets the scale instead.
  void update(double new_scale);
  /// Whether the gradients seen since the last update() were finite: float32, rank 0, on the
  /// device, 0 if they were. Error if none were seen.
  Tensor found_inf(const optim::Optimizer& optimizer) const;

  /// Throws NonFiniteGradients if more than max_skips steps in a row were skipped. Waits for the
  /// device.
  void check_skips();
  /// What to call parameters in errors.
  void name_parameters(std::vector<std::pair<std::string, Tensor>> names) {
    names_ = std::move(names);
  }

  /// Wait for the device. The scale of a disabled scaler is 1.
  double get_scale() const;
  int64_t growth_tracker() const;  // steps since the scale last changed
  /// Scale, factors, interval, the steps since the last change, those skipped in a row and all:
  /// empty if disabled.
  optim::StateDict state_dict() const;
  /// Error, and nothing changed, if something is missing, as in an empty state, or out of its
  /// range. PyTorch's states, which do not count steps, will do.
  void load_state_dict(const optim::StateDict& state);

 private:
  enum class Stage { kReady, kUnscaled, kStepped };
  // What is known of an optimizer since the last update().
  struct Seen {
    Stage stage = Stage::kReady;
    std::vector<Tensor> params;  // those whose gradients were looked at, or this rank's parts
    std::vector<Tensor> wholes;  // the same, whole
    std::vector<int64_t> sizes;  // elements of their gradients
    Tensor found_inf, norm, first;
    bool captured = false;
  };

  void require_scale(const char* function) const;
  void start(Device device);
  void look(optim::Optimizer& optimizer, Seen& seen, bool unscale);
  /// What is known of an iteration that was captured, but not to its end, is of no other.
  void forget_captured();
  void finish_iteration();
  void poll_skips();
  /// Of (steps skipped in a row, updates): error if they are too many.
  void judge_skips(const Tensor& counts) const;
  std::string first_non_finite() const;

  Options options_;
  int64_t init_growth_tracker_ = 0, init_skips_ = 0, init_updates_ = 0;
  Tensor scale_, growth_tracker_, any_inf_;  // undefined until the first scale()
  Tensor counts_;                            // int64, 2: skips in a row, and updates
  std::unordered_map<const optim::Optimizer*, Seen> seen_;
  std::unordered_map<const optim::Optimizer*, Tensor> first_;  // where each look puts Seen::first
  std::vector<Seen> last_;                                     // those of the last iteration
  struct Pending {
    Tensor counts;  // in host memory, once `copied`
    Event copied;
  };
  std::optional<Pending> pending_;
  std::vector<std::pair<std::string, Tensor>> names_;
};

}  // namespace wick::amp
