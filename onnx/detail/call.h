#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "wick/core/autograd.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/base/scoped_value.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/onnx/detail/model.h"

namespace wick::onnx::detail {

/// While it lives, ops are unseen by a trace and record no gradients: for values on the host.
class HostScope {
 public:
  HostScope();

 private:
  NoGrad no_grad_;
  ScopedValue<OpRecorder*> ops_, thread_;
};

/// What a node computes with.
struct Value {
  Tensor tensor;
  bool on_host = false;  // shape arithmetic, which no element of an input enters
};

/// One node with its inputs. Getters throw where the node lacks what is asked for.
class Call {
 public:
  Call(const Node& node, std::vector<Value> inputs, bool training, int64_t opset, Device device)
      : node_(node),
        inputs_(std::move(inputs)),
        training_(training),
        opset_(opset),
        device_(device) {}

  const std::string& op() const { return node_.op; }
  bool training() const { return training_; }
  int64_t opset() const { return opset_; }
  size_t num_outputs() const { return node_.outputs.size(); }

  size_t num_inputs() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].tensor.defined(); }
  /// Input `i` on the device of the call.
  Tensor operator[](size_t i) const;
  /// The same; undefined where the node leaves it out.
  Tensor optional(size_t i) const { return has(i) ? (*this)[i] : Tensor(); }
  /// The elements of input `i`, which must be known on the host.
  std::vector<int64_t> integers_of(size_t i) const;
  std::vector<double> reals_of(size_t i) const;
  /// The one number that input `i` is.
  double number_of(size_t i) const;
  bool is_on_host(size_t i) const { return has(i) && inputs_[i].on_host; }
  const Tensor& host(size_t i) const;

  template <class T>
  const T* find(std::string_view name) const {
    const auto found = node_.attributes.find(name);
    if (found == node_.attributes.end()) return nullptr;
    const T* value = std::get_if<T>(&found->second);
    WICK_CHECK(value != nullptr, "attribute ", name, " is of another type than expected");
    return value;
  }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  /// The list of an attribute; empty where there is none.
  std::vector<int64_t> integers(std::string_view name) const;
  /// A list that is an attribute in older opsets, and input `i` in newer ones; empty for neither.
  std::vector<int64_t> list(std::string_view name, size_t i) const;
  /// Error if the attribute is there with another value.
  void expect(std::string_view name, int64_t value) const;

 private:
  const Node& node_;
  std::vector<Value> inputs_;
  bool training_;
  int64_t opset_;
  Device device_;
};

/// An op of ONNX: one line of a family's table.
struct OpEntry {
  std::string_view name;
  size_t min_inputs;
  size_t max_inputs;  // kAny: no limit
  Function function;
  /// Inputs from this one on steer the op. A floating initializer there is not trained.
  size_t first_setting = 1000;
};
inline constexpr size_t kAny = 1000;

std::span<const OpEntry> math_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> shape_ops();
std::span<const OpEntry> index_ops();
std::span<const OpEntry> coordinate_ops();
std::span<const OpEntry> network_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> recurrent_ops();
/// The op of that name in one of the tables; null if there is none.
const OpEntry* find_op(std::string_view name);

/// The dtype that a number of TensorProto.DataType stands for. Error if Wick has no such.
Dtype dtype_of_number(int64_t number);

/// Results of a function of one result.
inline std::vector<Tensor> one(Tensor x) { return {std::move(x)}; }

/// `list`, or where it is empty `count` times `value`. Error for another length.
Shape per_axis(std::string_view name, const std::vector<int64_t>& list, int count, int64_t value);

}  // namespace wick::onnx::detail
