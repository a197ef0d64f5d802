#pragma once

#include <string>
#include <vector>

namespace wick::testing {

/// Names of the models in the folder of cases: tests/onnx/cases, or that of WICK_ONNX_CASES.
std::vector<std::string> onnx_case_names();
/// The path of a model's files, without their endings.
std::string onnx_case(const std::string& name);

}  // namespace wick::testing
