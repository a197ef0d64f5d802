#include "wick/train/inspection.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/printable.h"
#include "wick/tools/wick/commands.h"

namespace wick::tool {

namespace {

using train::Difference;
using train::Inspected;

constexpr size_t kShownDigits = 12;  // of hashes, in text

struct InspectFlags {
  std::string path, other;
  bool json = false;
};

const char* kind_text(Difference::Kind kind) {
  static constexpr const char* kTexts[] = {"only in the first", "only in the second",
                                           "another dtype", "another shape", "other elements"};
  return kTexts[static_cast<size_t>(kind)];
}

nlohmann::ordered_json json_of(const Inspected& found) {
  nlohmann::ordered_json all = {{"path", found.path}, {"sha256", found.sha256()}};
  all["tensors"] = nlohmann::ordered_json::array();
  for (const auto& [name, x] : found.tensors) {
    const train::TensorFigures figures = train::figures_of(x);
    all["tensors"].push_back({{"name", name},
                              {"dtype", concat(figures.dtype)},
                              {"shape", figures.shape},
                              {"nan", figures.nan},
                              {"infinite", figures.infinite},
                              {"norm", figures.norm},
                              {"sha256", figures.sha256}});
  }
  return all;
}

nlohmann::ordered_json json_of(const std::vector<Difference>& differences) {
  auto all = nlohmann::ordered_json::array();
  for (const Difference& d : differences) {
    nlohmann::ordered_json entry = {{"name", d.name}, {"kind", kind_text(d.kind)}};
    if (d.kind == Difference::Kind::kElements) {
      entry["elements"] = d.elements;
      entry["largest"] = d.largest;
      entry["relative_norm"] = d.relative_norm;
    }
    all.push_back(std::move(entry));
  }
  return all;
}

size_t name_width(const Inspected& found) {
  size_t width = 4;
  for (const auto& [name, x] : found.tensors) width = std::max(width, printable(name).size());
  return width;
}

void print_text(const Inspected& found) {
  const size_t width = name_width(found);
  int64_t elements = 0, nan = 0, infinite = 0;
  fmt::print("{:<{}}  {:<8} {:<18} {:>8} {:>8} {:>12}  hash\n", "name", width, "dtype", "shape",
             "NaN", "infinite", "norm");
  for (const auto& [name, x] : found.tensors) {
    const train::TensorFigures figures = train::figures_of(x);
    fmt::print("{:<{}}  {:<8} {:<18} {:>8} {:>8} {:>12.5g}  {}\n", printable(name), width,
               concat(figures.dtype), concat(figures.shape), figures.nan, figures.infinite,
               figures.norm, figures.sha256.substr(0, kShownDigits));
    elements += x.numel();
    nan += figures.nan;
    infinite += figures.infinite;
  }
  fmt::print("{}: {} tensors of {} elements, {} NaN, {} infinite, SHA-256 {}\n",
             printable(found.path), found.tensors.size(), elements, nan, infinite, found.sha256());
}

void print_text(const std::vector<Difference>& differences, const Inspected& first,
                const Inspected& second) {
  for (const Difference& d : differences) {
    std::string text = kind_text(d.kind);
    if (d.kind == Difference::Kind::kElements) {
      text = fmt::format("{} of {} elements differ, by at most {:.5g}, in norm by {:.3g}",
                         d.elements, first.tensors.at(d.name).numel(), d.largest, d.relative_norm);
    }
    fmt::print("{}: {}\n", printable(d.name), text);
  }
  if (differences.empty()) {
    fmt::print("{} and {}: the same {} tensors, SHA-256 {}\n", printable(first.path),
               printable(second.path), first.tensors.size(), first.sha256());
  } else {
    fmt::print("{} and {}: {} tensors differ\n", printable(first.path), printable(second.path),
               differences.size());
  }
}

int inspect(const InspectFlags& flags) {
  const Inspected first = train::inspect(flags.path);
  const bool compares = !flags.other.empty();
  const Inspected second = compares ? train::inspect(flags.other) : Inspected();
  const auto differences = compares ? train::differences(first, second) : std::vector<Difference>();
  if (flags.json) {
    nlohmann::ordered_json all = json_of(first);
    if (compares) {
      all = {{"first", std::move(all)}, {"second", json_of(second)}};
      all["differences"] = json_of(differences);
    }
    fmt::print("{}\n", all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (compares) {
    print_text(differences, first, second);
  } else {
    print_text(first);
  }
  return differences.empty() ? 0 : kFailedExit;
}

}  // namespace

void add_inspect(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "inspect", "Shows the tensors of a file, a checkpoint or a run, or how two of them differ");
  auto flags = std::make_shared<InspectFlags>();
  sub->add_option("FILE|RUN", flags->path,
                  "safetensors file, folder of a checkpoint, or folder of a run")
      ->required();
  sub->add_option("OTHER", flags->other, "what to compare it with");
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->footer(
      "With OTHER the exit code is 1 if they differ.\n"
      "Example: wick inspect runs/a/checkpoints/step-500; wick inspect runs/a runs/b");
  sub->callback([flags, &command] { command = [flags] { return inspect(*flags); }; });
}

}  // namespace wick::tool
