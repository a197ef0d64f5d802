#pragma once

#include <memory>
#include <string>
#include <vector>

#include "wick/nn/module.h"

namespace wick::onnx {

namespace detail {
struct Program;
struct TensorPlace;
}  // namespace detail

/// The tensors of a model whose names share a prefix: "layer1" of "layer1.conv.weight".
class TensorGroup : public nn::Module {
 public:
  std::string description() const override { return "TensorGroup"; }

 protected:
  void add_tensor(std::string name, const Tensor& value, bool is_trained,
                  detail::TensorPlace& place);
  const Tensor& tensor_at(const detail::TensorPlace& place) const;
  bool has_name(const std::string& name) const;

 private:
  std::vector<nn::Parameter> parameters_;
  std::vector<nn::Buffer> buffers_;
  std::vector<std::string> names_;
  std::vector<nn::Handle<TensorGroup>> groups_;
  std::vector<std::string> group_names_;
};

/// An input that a model declares.
struct Input {
  std::string name;
  Dtype dtype = Dtype::kFloat32;
  bool has_shape = false;
  std::vector<int64_t> shape = {};  // -1 for a size that the model leaves open
};

/// The graph of an ONNX file as a module that trains. Floating initializers are parameters, by
/// their ONNX names. Running statistics of BatchNormalization are buffers. train() switches
/// BatchNormalization and Dropout to their training forms.
class Module : public TensorGroup {
 public:
  /// Takes the tensors of the program that the module registers.
  explicit Module(const std::shared_ptr<detail::Program>& program);

  /// The first result, for a model of one input.
  Tensor forward(const Tensor& x) override;
  /// All results in the model's order. Error unless the inputs have the dtypes, ranks and fixed
  /// sizes that the model declares. The size of axis 0, the batch, is free.
  std::vector<Tensor> forward(const std::vector<Tensor>& inputs);
  std::string description() const override;

  const std::vector<Input>& inputs() const;
  const std::vector<std::string>& output_names() const;

 private:
  std::shared_ptr<const detail::Program> program_;
  std::vector<detail::TensorPlace> places_;
};

/// Reads an ONNX model of opset 13 to 21, with tensors in the file or beside it. The file is not
/// trusted: one that is truncated, has cycles, unknown ops or tensors of other sizes than it claims
/// is an error of one sentence that names the file.
nn::Handle<Module> load(const std::string& path);

}  // namespace wick::onnx
