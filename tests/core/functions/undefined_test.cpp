#include <gtest/gtest.h>

#include <map>

#include "wick/tests/core/functions/declarations.h"
#include "wick/tests/core/functions/functions.h"
#include "wick/tests/harness/expect_error.h"

// An undefined tensor is an error that names the function that was called.
namespace wick::testing {
namespace {

TEST(Functions, AreAllThoseThatHeadersDeclare) {
  std::map<std::string, int> declared, listed;
  for (const Declaration& declaration : declarations()) {
    declared[declaration.name] += declaration.takes_tensors ? 1 : 0;
  }
  for (const Function& function : all_functions()) ++listed[function.name];
  EXPECT_GT(declared.size(), 300u);
  for (const auto& [name, count] : declared) {
    EXPECT_GE(listed[name], count) << name << ": give each overload an entry in *_functions.cpp";
  }
  for (const auto& [name, count] : listed) EXPECT_TRUE(declared.count(name) != 0) << name;
}

TEST(Functions, TakeTheirSamples) {
  for (const Function& function : all_functions()) {
    EXPECT_EQ(error_of([&] { function.call(function.inputs); }), "no error") << function.name;
  }
}

// As errors have it: "masked::sum", but "qr" for linalg::qr.
std::string own_name(const std::string& name) {
  const std::string linalg = "linalg::";
  return name.compare(0, linalg.size(), linalg) == 0 ? name.substr(linalg.size()) : name;
}

TEST(Functions, NameThemselvesWhereATensorIsUndefined) {
  for (const Function& function : all_functions()) {
    const std::string begin = own_name(function.name) + ": ";
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      std::vector<Tensor> inputs = function.inputs;
      inputs[i] = Tensor();
      const std::string text = error_of([&] { function.call(inputs); });
      EXPECT_EQ(text.substr(0, begin.size()), begin)
          << function.name << ", input " << i << ": " << text;
    }
  }
}

}  // namespace
}  // namespace wick::testing
