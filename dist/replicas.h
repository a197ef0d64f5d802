#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/nn/module.h"

namespace wick::dist {

/// A module with a replica on each further GPU of this process, as PyTorch's DataParallel. Each
/// forward copies parameters and buffers to the replicas where they have changed, splits the batch
/// along its first axis, and joins the results on the first device. Backward adds the replicas'
/// gradients to the module's. All GPUs are given their work by the calling thread.
/// DistributedDataParallel is faster, see docs/data_parallel.md.
///
///   dist::DataParallel model([] { return std::make_shared<Net>(); },
///                            {cuda_device(0), cuda_device(1)});
///   cross_entropy(model(x), y).backward();
///   optimizer.step();
///
/// Buffers (running statistics) are those of the first part of each batch. A hook on a gradient of
/// the module is called for the first device's part alone.
class DataParallel final : public nn::Module {
 public:
  /// `make` gives a new module of the same shapes each time: the first is the one that is trained,
  /// on devices[0]. Error without a device, or if the modules differ.
  DataParallel(const std::function<std::shared_ptr<nn::Module>()>& make,
               std::vector<Device> devices);

  /// x: at least one axis, on any device. Returns what the module would of the whole batch, on the
  /// first device; results without an axis are joined to a vector. A batch that is smaller than the
  /// number of devices is split among as many.
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "DataParallel"; }
  nn::Module& module() { return *module_; }  // whose parameters are trained

 private:
  struct Replica;
  void bring_up_to_date(const std::shared_ptr<Replica>& replica) const;

  nn::Handle<nn::Module> module_;
  std::vector<Device> devices_;
  std::vector<std::shared_ptr<Replica>> replicas_;  // on devices_[1] and on
};

}  // namespace wick::dist
