#pragma once

#include "wick/core/ops/interpolate.h"
#include "wick/core/ops/join.h"
#include "wick/nn/module.h"

// Layers that put something around their input, or resize it.

namespace wick::nn {

/// `pad` as a layer.
class Pad : public Module {
 public:
  Tensor forward(const Tensor& x) override { return pad(x, pads_, value_, mode_); }
  std::string description() const override;

 protected:
  /// `padding`: one number for all sides of the last `axes` axes, or one for each side: the last
  /// axis first, and before it behind, {left, right, top, bottom, ...}. Negative ones crop.
  Pad(const char* name, int axes, const Shape& padding, PadMode mode, double value = 0);

 private:
  const char* name_;
  std::vector<int64_t> pads_;
  PadMode mode_;
  double value_;
};

/// Puts `value` around the last axis.
class ConstantPad1d : public Pad {
 public:
  ConstantPad1d(const Shape& padding, double value)
      : Pad("ConstantPad1d", 1, padding, PadMode::kConstant, value) {}
};
/// Around the last two axes.
class ConstantPad2d : public Pad {
 public:
  ConstantPad2d(const Shape& padding, double value)
      : Pad("ConstantPad2d", 2, padding, PadMode::kConstant, value) {}
};
/// Around the last three.
class ConstantPad3d : public Pad {
 public:
  ConstantPad3d(const Shape& padding, double value)
      : Pad("ConstantPad3d", 3, padding, PadMode::kConstant, value) {}
};

// What the margin of the last 1, 2 or 3 axes is: see PadMode.
/// Puts zeros around the last axis.
class ZeroPad1d : public Pad {
 public:
  explicit ZeroPad1d(const Shape& padding) : Pad("ZeroPad1d", 1, padding, PadMode::kConstant) {}
};
/// Pads the last axis by PadMode::kReflect.
class ReflectionPad1d : public Pad {
 public:
  explicit ReflectionPad1d(const Shape& padding)
      : Pad("ReflectionPad1d", 1, padding, PadMode::kReflect) {}
};
/// Pads the last axis by PadMode::kReplicate.
class ReplicationPad1d : public Pad {
 public:
  explicit ReplicationPad1d(const Shape& padding)
      : Pad("ReplicationPad1d", 1, padding, PadMode::kReplicate) {}
};
/// Pads the last axis by PadMode::kCircular.
class CircularPad1d : public Pad {
 public:
  explicit CircularPad1d(const Shape& padding)
      : Pad("CircularPad1d", 1, padding, PadMode::kCircular) {}
};
/// Puts zeros around the last two axes.
class ZeroPad2d : public Pad {
 public:
  explicit ZeroPad2d(const Shape& padding) : Pad("ZeroPad2d", 2, padding, PadMode::kConstant) {}
};
/// Pads the last two axes by PadMode::kReflect.
class ReflectionPad2d : public Pad {
 public:
  explicit ReflectionPad2d(const Shape& padding)
      : Pad("ReflectionPad2d", 2, padding, PadMode::kReflect) {}
};
/// Pads the last two axes by PadMode::kReplicate.
class ReplicationPad2d : public Pad {
 public:
  explicit ReplicationPad2d(const Shape& padding)
      : Pad("ReplicationPad2d", 2, padding, PadMode::kReplicate) {}
};
/// Pads the last two axes by PadMode::kCircular.
class CircularPad2d : public Pad {
 public:
  explicit CircularPad2d(const Shape& padding)
      : Pad("CircularPad2d", 2, padding, PadMode::kCircular) {}
};
/// Puts zeros around the last three axes.
class ZeroPad3d : public Pad {
 public:
  explicit ZeroPad3d(const Shape& padding) : Pad("ZeroPad3d", 3, padding, PadMode::kConstant) {}
};
/// Pads the last three axes by PadMode::kReflect.
class ReflectionPad3d : public Pad {
 public:
  explicit ReflectionPad3d(const Shape& padding)
      : Pad("ReflectionPad3d", 3, padding, PadMode::kReflect) {}
};
/// Pads the last three axes by PadMode::kReplicate.
class ReplicationPad3d : public Pad {
 public:
  explicit ReplicationPad3d(const Shape& padding)
      : Pad("ReplicationPad3d", 3, padding, PadMode::kReplicate) {}
};
/// Pads the last three axes by PadMode::kCircular.
class CircularPad3d : public Pad {
 public:
  explicit CircularPad3d(const Shape& padding)
      : Pad("CircularPad3d", 3, padding, PadMode::kCircular) {}
};

/// Options of Upsample, named as those of torch.nn.Upsample. `align_corners` is for linear and
/// cubic modes. `recompute_scale_factor` is for `scale_factor`: the rounded size alone counts then.
struct UpsampleOptions {
  Shape size = {};                        // of the result, an entry per axis or one for all;
  std::vector<double> scale_factor = {};  // or by how much larger it is
  Interpolation mode = Interpolation::kNearest;
  bool align_corners = false;
  bool recompute_scale_factor = false;
};

/// `interpolate` as a layer: x [N, C, L], [N, C, H, W] or [N, C, D, H, W]. Error unless one of
/// `size` and `scale_factor` is given.
class Upsample : public Module {
 public:
  explicit Upsample(const UpsampleOptions& options);
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  UpsampleOptions options_;
};

}  // namespace wick::nn
