#include "wick/tools/study/technique.h"

#include <map>

namespace wick::study {

const std::vector<Technique>& techniques() {
  static const std::vector<Technique> all = [] {
    std::vector<Technique> joined;
    for (auto* group :
         {&data_techniques, &step_techniques, &training_techniques, &device_techniques}) {
      joined.insert(joined.end(), group().begin(), group().end());
    }
    return joined;
  }();
  return all;
}

const Technique* find_technique(const std::string& id) {
  for (const Technique& technique : techniques()) {
    if (id == technique.id) return &technique;
  }
  return nullptr;
}

const char* article_title(const std::string& number) {
  static const std::map<std::string, const char*> titles = {
      {"000", "How to make your PyTorch code run faster (Better Programming)"},
      {"001", "Eleven tips for faster PyTorch code (51CTO)"},
      {"003", "Performance guide for PyTorch 0.4 (CSDN)"},
      {"004", "17 ways to train neural networks faster in PyTorch (Lorenz Kuhn)"},
  };
  const auto found = titles.find(number);
  return found == titles.end() ? "" : found->second;
}

}  // namespace wick::study
