#pragma once

#include "wick/kernels/optim/adam.h"

// state of a matrix: direction or update, which a step has for itself, none, and momentum buffer;
// of all else: first moment, second moment.

namespace wick::rules::muon {

enum class Stage { kDirection, kUpdate, kAdamw };

/// beta1, beta2 and eps are AdamW's.
struct Args : adam::Args {
  static constexpr const char* kName = "muon_step";
  double momentum;
  bool nesterov;
  Stage stage;
};

template <class T>
struct Momentum {
  T keep, take;
  WICK_HOST_DEVICE explicit Momentum(const Args& args)
      : keep(T(args.momentum)), take(T(1 - args.momentum)) {}
  WICK_HOST_DEVICE T next(T buffer, T d) const { return keep * buffer + take * d; }
};

/// Gives the direction that is then made orthogonal, and changes nothing else.
template <class T>
struct Direction {
  static constexpr uint32_t kStates = 5;
  Momentum<T> momentum;
  bool nesterov;
  WICK_HOST_DEVICE Direction(const Args& args, double, double&)
      : momentum(args), nesterov(args.nesterov) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& direction, T&, T& buffer) const {
    const T next = momentum.next(buffer, d);
    direction = nesterov ? momentum.next(next, d) : next;
    return w;
  }
};

/// Takes the update that was made of the direction.
template <class T>
struct Update {
  static constexpr uint32_t kStates = 5;
  Momentum<T> momentum;
  T lr;
  WICK_HOST_DEVICE Update(const Args& args, double, double&) : momentum(args), lr(T(args.lr)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& update, T&, T& buffer) const {
    buffer = momentum.next(buffer, d);
    return w - lr * update;
  }
};

template <class Run>
WICK_INLINE void choose(const Args& args, const Run& run) {
  if (args.stage == Stage::kDirection) return run(RuleOf<Direction>());
  if (args.stage == Stage::kUpdate) return run(RuleOf<Update>());
  run(RuleOf<adam::Plain>());
}

}  // namespace wick::rules::muon
