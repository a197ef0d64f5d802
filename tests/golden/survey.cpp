#include "wick/tests/golden/survey.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "wick/core/file.h"

namespace wick::golden {

using nlohmann::json;

void Survey::pass(const std::string& family, const std::string& name) {
  ++families_[family].passed;
  passed_.push_back(name);
}

void Survey::wrong(const std::string& family, const std::string& name, const std::string& reason) {
  ++families_[family].wrong;
  wrong_[name] = reason;
}

void Survey::miss(const std::string& family, const std::string& name, const std::string& reason) {
  Counts& counts = families_[family];
  ++counts.missing;
  ++counts.reasons[reason];
  missing_[name] = reason;
}

void Survey::write(const std::string& path) const {
  Counts all;
  std::printf("%7s %7s %7s\n", "pass", "wrong", "missing");
  for (const auto& [family, counts] : families_) {
    std::printf("%7d %7d %7d  %s\n", counts.passed, counts.wrong, counts.missing, family.c_str());
    for (const auto& [reason, times] : counts.reasons) {
      std::printf("%31d x %s\n", times, reason.c_str());
    }
    all.passed += counts.passed;
    all.wrong += counts.wrong;
    all.missing += counts.missing;
  }
  std::printf("%7d %7d %7d  in all\n", all.passed, all.wrong, all.missing);
  const json content = {
      {"totals", {{"pass", all.passed}, {"wrong", all.wrong}, {"missing", all.missing}}},
      {"passed", passed_},
      {"wrong", wrong_},
      {"missing", missing_}};
  write_file(path, content.dump(1) + "\n");
}

}  // namespace wick::golden
