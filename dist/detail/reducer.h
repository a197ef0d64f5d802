#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wick/dist/data_parallel.h"
#include "wick/dist/join.h"

namespace wick::dist {

/// Error, on all ranks, if their tensors differ in number, names, shapes or dtypes.
void check_same_modules(ProcessGroup& group, const nn::NamedTensors& tensors, Device device);

/// Gathers the gradients of a DistributedDataParallel's parameters in buckets and reduces them.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  struct Parameter {
    std::string name;
    Tensor tensor;
    size_t bucket = 0;
    int64_t begin = 0;  // in its bucket, in elements
    Tensor place = {};  // there, as the parameter is laid out
    // The same, as the parameter's grad(): by this handle a graph knows whether a step reads the
    // gradients of the step before.
    Tensor gradient = {};
    bool ready = false;
    bool is_used = false;  // by a pass since gradients were last reduced
    /// This rank's part of the parameter's own memory, a leaf of rank 1 (maybe empty), and of the
    /// average of its gradients: once shard() was called.
    Tensor shard = {}, shard_grad = {};
  };

  Reducer(nn::Module& module, std::shared_ptr<ProcessGroup> group,
          const DataParallelOptions& options);
  void add_hooks();

  void before_forward(bool training);
  void after_forward(const std::vector<Tensor>& outputs);
  bool sync = true;
  bool sync_around = true;  // as NoSync has it outside of a trace

  bool alone() const { return group_->size() == 1; }
  ProcessGroup& group() const { return *group_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // --- Shares of an optimizer, see zero.h
  // ---------------------------------------------------------

  /// From now on each bucket is reduced by reduce_scatter, each rank gets the average of its part,
  /// and buckets stay as they are.
  void shard();
  /// The elements of a parameter, in the order of memory, that `rank` has: where they begin, and
  /// how many.
  std::pair<int64_t, int64_t> share_of(const Parameter& parameter, int rank) const;
  /// Gives all ranks all shares of the parameters.
  void gather_parameters();

  // --- Uneven inputs, see join.h
  // ------------------------------------------------------------------

  void begin_join(const JoinOptions& options);
  /// Passes with zeros for gradients and `step`, for as long as other ranks have inputs.
  void shadow(const std::function<void()>& step);
  void end_join() {
    join_.reset();
    root_ = 0;
  }

 private:
  struct Bucket {
    Tensor memory;  // a multiple of the number of ranks
    std::vector<size_t> parameters;
    size_t pending = 0;
    std::optional<Work> work = {};
    Tensor part = {};  // of the average, if it is shared out
  };

  void check_options() const;
  Dtype travel_dtype(const Tensor& parameter) const;
  int64_t padded(const Tensor& x) const;
  void build(const std::vector<size_t>& order);
  void lay_out(size_t b);
  void rebuild();
  static std::pair<Dtype, int> kind_of(const Tensor& x);
  void broadcast_all(const nn::NamedTensors& tensors, int root = 0);

  void check_each_run();
  void share_buffers();
  void set_gradients_in_each_run() const;
  void begin_pass();
  void check_finished() const;
  std::vector<size_t> find_unused(const std::vector<Tensor>& outputs) const;
  void on_gradient(size_t p);
  static void put_in_place(Parameter& parameter);
  void mark_ready(size_t p);
  void reduce(Bucket& bucket);
  void finish();
  bool may_be_unused() const { return options_.find_unused_parameters || options_.static_graph; }
  std::vector<bool> settle_unused();

  /// Of a tensor that is like this rank's part of a bucket, what belongs to the parameter.
  Tensor narrow_to_share(const Tensor& bucket_part, const Parameter& parameter) const;

  /// Tells the ranks whether this one has an input for the next pass, and learns it of them.
  void announce(bool has_input);
  void pass_with_zeros();

  std::shared_ptr<ProcessGroup> group_;
  DataParallelOptions options_;
  std::vector<Parameter> parameters_;
  nn::NamedTensors buffers_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> unused_;
  std::vector<size_t> order_;  // in which gradients became ready, until buckets follow it
  size_t next_ = 0;            // bucket to be reduced
  bool expecting_ = false;     // the last forward wants its backward to be reduced
  bool started_ = false;       // a gradient has come since
  bool finished_ = false;      // and they have all been reduced
  bool rebuilt_ = false;
  bool searched_ = false;
  bool sharded_ = false;

  std::optional<JoinOptions> join_;
  int active_ = 0;  // ranks that have an input for the pass under way
  int root_ = 0;    // the first of them
};

}  // namespace wick::dist
