// What the arguments of a recorded call are read as.
#include <cmath>

#include "wick/tests/golden/opinfo.h"

namespace wick::golden {

using nlohmann::json;

void Argument::unfit(const char* expected) const {
  const std::string got = is_tensor() ? "a tensor" : value->dump();
  throw Missing("argument '" + name + "': got " + (got.size() > 24 ? "a list" : got) +
                ", Wick takes " + expected);
}

bool Argument::is_number() const {
  return value->is_number() || (value->is_object() && value->contains("number"));
}

double Argument::number() const {
  if (!is_number()) unfit("a number");
  if (value->is_number()) return value->get<double>();
  return std::stod(value->at("number").get<std::string>());
}

int64_t Argument::integer() const {
  if (!value->is_number_integer()) unfit("an integer");
  return value->get<int64_t>();
}

const std::string& Argument::text(const char* expected) const {
  if (!value->is_string()) unfit(expected);
  return value->get_ref<const std::string&>();
}

int64_t Read<int64_t>::from(const Argument& a) { return a.integer(); }
std::string Read<std::string>::from(const Argument& a) { return a.text("a text"); }

Tensor Read<Tensor>::from(const Argument& a) {
  if (a.value->is_null()) return {};
  if (!a.is_tensor()) a.unfit("a tensor");
  return a.tensors->at(a.value->at("tensor").get<std::string>());
}

Scalar Read<Scalar>::from(const Argument& a) {
  if (a.value->is_boolean()) return a.value->get<bool>();
  if (a.value->is_number_integer()) return a.integer();
  return a.number();
}

Dtype Read<Dtype>::from(const Argument& a) {
  if (!a.value->is_object() || !a.value->contains("dtype")) a.unfit("a dtype");
  const std::string name = a.value->at("dtype").get<std::string>();
  for (const Dtype dtype :
       {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8, kBool}) {
    if (name == to_string(dtype)) return dtype;
  }
  throw Missing("no dtype " + name);
}

Shape Read<Shape>::from(const Argument& a) {
  if (a.value->is_null()) return {};
  if (a.value->is_number_integer()) return {a.integer()};
  const std::vector<int64_t> sizes = read_list<int64_t>(a, "integers");
  if (sizes.size() > kMaxRank) a.unfit("at most 8 axes");
  return sizes;
}

bool Read<bool>::from(const Argument& a) {
  if (a.value->is_null()) return false;
  if (!a.value->is_boolean()) a.unfit("true or false");
  return a.value->get<bool>();
}

LossReduction Read<LossReduction>::from(const Argument& a) {
  return a.word<LossReduction>({{"none", LossReduction::kNone},
                                {"mean", LossReduction::kMean},
                                {"sum", LossReduction::kSum},
                                {"batchmean", LossReduction::kBatchMean}});
}

Interpolation Read<Interpolation>::from(const Argument& a) {
  return a.word<Interpolation>({{"nearest", Interpolation::kNearest},
                                {"nearest-exact", Interpolation::kNearestExact},
                                {"linear", Interpolation::kLinear},
                                {"bilinear", Interpolation::kBilinear},
                                {"trilinear", Interpolation::kTrilinear},
                                {"bicubic", Interpolation::kBicubic},
                                {"area", Interpolation::kArea}});
}

PadMode Read<PadMode>::from(const Argument& a) {
  return a.word<PadMode>({{"constant", PadMode::kConstant},
                          {"zeros", PadMode::kConstant},
                          {"reflect", PadMode::kReflect},
                          {"replicate", PadMode::kReplicate},
                          {"circular", PadMode::kCircular}});
}

Rounding Read<Rounding>::from(const Argument& a) {
  return a.word<Rounding>({{"trunc", Rounding::kTrunc}, {"floor", Rounding::kFloor}});
}

QuantileMode Read<QuantileMode>::from(const Argument& a) {
  return a.word<QuantileMode>({{"linear", QuantileMode::kLinear},
                               {"lower", QuantileMode::kLower},
                               {"higher", QuantileMode::kHigher},
                               {"nearest", QuantileMode::kNearest},
                               {"midpoint", QuantileMode::kMidpoint}});
}

ScatterReduction Read<ScatterReduction>::from(const Argument& a) {
  return a.word<ScatterReduction>({{"sum", ScatterReduction::kSum},
                                   {"add", ScatterReduction::kSum},
                                   {"prod", ScatterReduction::kProd},
                                   {"multiply", ScatterReduction::kProd},
                                   {"mean", ScatterReduction::kMean},
                                   {"amax", ScatterReduction::kAmax},
                                   {"amin", ScatterReduction::kAmin}});
}

GeluApproximation Read<GeluApproximation>::from(const Argument& a) {
  return a.word<GeluApproximation>(
      {{"none", GeluApproximation::kNone}, {"tanh", GeluApproximation::kTanh}});
}

ConvPadding Read<ConvPadding>::from(const Argument& a) {
  return a.word<ConvPadding>({{"same", ConvPadding::kSame}, {"valid", ConvPadding::kValid}});
}

BagMode Read<BagMode>::from(const Argument& a) {
  return a.word<BagMode>(
      {{"sum", BagMode::kSum}, {"mean", BagMode::kMean}, {"max", BagMode::kMax}});
}

GridMode Read<GridMode>::from(const Argument& a) {
  return a.word<GridMode>({{"bilinear", GridMode::kBilinear}, {"nearest", GridMode::kNearest}});
}

GridPadding Read<GridPadding>::from(const Argument& a) {
  return a.word<GridPadding>({{"zeros", GridPadding::kZeros},
                              {"border", GridPadding::kBorder},
                              {"reflection", GridPadding::kReflection}});
}

Spelling spelled(void (*function)(), const char* signature,
                 Tensors (*run)(void (*)(), const std::vector<Argument>&)) {
  return {signature, [function, run](const std::vector<Argument>& arguments) {
            return run(function, arguments);
          }};
}

Tensors results(const Shape& y) {
  Tensors sizes;
  for (const int64_t size : y) sizes.push_back(scalar_tensor(size, kInt64));
  return sizes;
}

}  // namespace wick::golden
