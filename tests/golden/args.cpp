#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "wick/tests/golden/golden.h"

namespace wick::golden {

using nlohmann::json;

namespace {

[[noreturn]] void fail(const std::string& name, const json& value, const char* expected) {
  throw Error(concat("argument '", name, "': got ", value.dump(), ", expected ", expected));
}

int64_t as_integer(const std::string& name, const json& value) {
  if (!value.is_number_integer()) fail(name, value, "an integer");
  return value.get<int64_t>();
}

double as_number(const std::string& name, const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "inf" || value == "Infinity") return HUGE_VAL;
  if (value == "-inf" || value == "-Infinity") return -HUGE_VAL;
  fail(name, value, "a number");
}

}  // namespace

Args::Args(const json& object) : object_(std::make_shared<json>(object)) {
  WICK_CHECK(object.is_object(), "args: got ", object.dump(), ", expected an object");
}

const json* Args::find(const std::string& name) {
  asked_.push_back(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json& Args::require(const std::string& name) {
  const json* value = find(name);
  WICK_CHECK(value != nullptr, "argument '", name, "' is missing");
  return *value;
}

bool Args::has(const std::string& name) { return find(name) != nullptr; }

bool Args::is_list(const std::string& name) {
  const json* value = find(name);
  return value != nullptr && value->is_array();
}

bool Args::is_flag(const std::string& name) {
  const json* value = find(name);
  return value != nullptr && value->is_boolean();
}

bool Args::is_text(const std::string& name) {
  const json* value = find(name);
  return value != nullptr && value->is_string();
}

double Args::number(const std::string& name, std::optional<double> otherwise) {
  return otherwise && !has(name) ? *otherwise : as_number(name, require(name));
}

Scalar Args::scalar(const std::string& name, std::optional<Scalar> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  const json& value = require(name);
  if (value.is_number_integer()) return value.get<int64_t>();
  return as_number(name, value);
}

int64_t Args::integer(const std::string& name, std::optional<int64_t> otherwise) {
  return otherwise && !has(name) ? *otherwise : as_integer(name, require(name));
}

bool Args::flag(const std::string& name, std::optional<bool> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  const json& value = require(name);
  if (!value.is_boolean()) fail(name, value, "true or false");
  return value.get<bool>();
}

std::string Args::text(const std::string& name, std::optional<std::string> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  const json& value = require(name);
  if (!value.is_string()) fail(name, value, "a text");
  return value.get<std::string>();
}

Shape Args::shape(const std::string& name, std::optional<Shape> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  return integers(name);
}

std::vector<int64_t> Args::integers(const std::string& name) {
  const json& value = require(name);
  if (!value.is_array()) return {as_integer(name, value)};
  std::vector<int64_t> result;
  for (const json& entry : value) result.push_back(as_integer(name, entry));
  return result;
}

Shape Args::shape_or(const std::string& name, const Shape& otherwise) {
  const json& value = require(name);
  if (!value.is_array()) return {as_integer(name, value)};
  WICK_CHECK(static_cast<int>(value.size()) == otherwise.rank(), "argument '", name, "': got ",
             value.dump(), ", expected ", otherwise.rank(), " entries");
  Shape result = otherwise;
  for (int i = 0; i < result.rank(); ++i) {
    const json& entry = value[static_cast<size_t>(i)];
    if (!entry.is_null()) result[i] = as_integer(name, entry);
  }
  return result;
}

Shape Args::repeated(const std::string& name, int count, std::optional<Shape> otherwise) {
  const Shape values = shape(name, otherwise);
  if (values.rank() == 1) return Shape::filled(count, values[0]);
  WICK_CHECK(values.rank() == count, "argument '", name, "': got ", values, ", expected ", count,
             " integers");
  return values;
}

std::vector<double> Args::numbers(const std::string& name, std::vector<double> otherwise) {
  const json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_array()) fail(name, *value, "a list of numbers");
  std::vector<double> result;
  for (const json& entry : *value) result.push_back(as_number(name, entry));
  return result;
}

std::vector<std::string> Args::texts(const std::string& name) {
  const json& value = require(name);
  if (!value.is_array()) fail(name, value, "a list of texts");
  std::vector<std::string> result;
  for (const json& entry : value) {
    if (!entry.is_string()) fail(name, value, "a list of texts");
    result.push_back(entry.get<std::string>());
  }
  return result;
}

void Args::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) has(name);
}

Tensor Args::in_dtype(const Tensor& x) {
  if (!has("dtype")) return x;
  std::string name = text("dtype");
  if (name.starts_with("torch.")) name = name.substr(6);
  for (const Dtype dtype :
       {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8, kBool}) {
    if (name == to_string(dtype)) return x.to(dtype);
  }
  throw Error(concat("argument 'dtype': got ", name, ", expected a dtype's name"));
}

Args Args::nested(const std::string& name) { return Args(require(name)); }

void Args::finish() const {
  for (const auto& item : object_->items()) {
    WICK_CHECK(std::find(asked_.begin(), asked_.end(), item.key()) != asked_.end(),
               "unknown argument '", item.key(), "'");
  }
}

void Inputs::add(const std::string& name, const Tensor& tensor) {
  names_.push_back(name);
  tensors_.push_back(tensor);
}

const Tensor& Inputs::operator[](size_t i) const {
  WICK_CHECK(i < tensors_.size(), "the case has ", tensors_.size(), " inputs, expected at least ",
             i + 1);
  return tensors_[i];
}

Tensor Inputs::optional(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? Tensor() : tensors_[static_cast<size_t>(found - names_.begin())];
}

Tensor Inputs::operator[](const std::string& name) const {
  const Tensor tensor = optional(name);
  WICK_CHECK(tensor.defined(), "the case has no input '", name, "'");
  return tensor;
}

}  // namespace wick::golden
