#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/serialize.h"
#include "wick/core/tensor.h"

// Runs reference cases made by PyTorch; cases/README.md describes the files. An op's entry in its
// family's table says how PyTorch's arguments become ours; an argument that it does not ask for is
// unknown, and the case fails.

namespace wick::golden {

using Tensors = std::vector<Tensor>;

/// The arguments of a case, which remember who asked for them. A missing or null one is the
/// default, or an error where there is none.
class Args {
 public:
  explicit Args(const nlohmann::json& object);

  bool has(const std::string& name);
  bool is_list(const std::string& name);
  bool is_text(const std::string& name);
  bool is_flag(const std::string& name);
  /// Numbers may be written as text: "inf", "-inf".
  double number(const std::string& name, std::optional<double> otherwise = {});
  Scalar scalar(const std::string& name, std::optional<Scalar> otherwise = {});
  int64_t integer(const std::string& name, std::optional<int64_t> otherwise = {});
  bool flag(const std::string& name, std::optional<bool> otherwise = {});
  std::string text(const std::string& name, std::optional<std::string> otherwise = {});
  /// A list of integers, or one integer.
  Shape shape(const std::string& name, std::optional<Shape> otherwise = {});
  std::vector<int64_t> integers(const std::string& name);
  /// As shape, with `otherwise`'s entries where the list has null.
  Shape shape_or(const std::string& name, const Shape& otherwise);
  /// A list of `count` integers, or one that stands for all.
  Shape repeated(const std::string& name, int count, std::optional<Shape> otherwise = {});
  std::vector<double> numbers(const std::string& name, std::vector<double> otherwise);
  std::vector<std::string> texts(const std::string& name);
  /// Takes arguments that change no result.
  void ignore(std::initializer_list<const char*> names);
  /// `x` in the dtype that the argument "dtype" names, as "float64" or "torch.float64", if any.
  Tensor in_dtype(const Tensor& x);
  /// The arguments of an argument.
  Args nested(const std::string& name);
  /// Error if an argument is left that nobody asked for.
  void finish() const;

 private:
  const nlohmann::json* find(const std::string& name);
  const nlohmann::json& require(const std::string& name);

  std::shared_ptr<const nlohmann::json> object_;
  std::vector<std::string> asked_;
};

/// The input tensors of a case, in the op's order.
class Inputs {
 public:
  void add(const std::string& name, const Tensor& tensor);
  size_t size() const { return tensors_.size(); }
  const Tensor& operator[](size_t i) const;
  Tensor operator[](const std::string& name) const;
  /// Undefined if there is none of that name, or there are not so many.
  Tensor optional(const std::string& name) const;
  Tensor optional(size_t i) const { return i < tensors_.size() ? tensors_[i] : Tensor(); }

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};

using OpFunction = std::function<Tensors(const Inputs& inputs, Args& args)>;
using OpTable = std::map<std::string, OpFunction>;

/// One case: its description and its tensors, by name without the case's.
struct Case {
  std::string name;
  std::string op;
  const nlohmann::json* json;
  TensorMap tensors;
  double rtol;
  double atol;
  Device device;
  bool equal_nan = false;  // whether NaN is right where it is expected

  Args args() const;
  /// An entry of the description beside name, op and args.
  int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  const Tensor& tensor(const std::string& tensor_name) const;
  /// Throws Error naming `what` unless |got - want| <= atol + rtol * |want| everywhere, and shape
  /// and dtype are the same. NaN never passes, unless `equal_nan`.
  void expect(const std::string& what, const Tensor& got, const std::string& want) const;
};

/// A case asks for what Wick does not have, or refuses.
class Missing : public Error {
 public:
  using Error::Error;
};

/// Runs one case; throws Error where it fails, and Missing where it cannot be run.
using Runner = std::function<void(const Case&)>;

/// Runs a case of an op of `table`: outputs, then gradients.
Runner op_runner(const OpTable& table);

/// All families of this program by name.
std::map<std::string, Runner>& families();

/// Adds a family: `const Family unary("unary", op_runner({{"relu", ...}, ...}));`
struct Family {
  Family(const char* name, Runner runner) { families().emplace(name, std::move(runner)); }
};

}  // namespace wick::golden
