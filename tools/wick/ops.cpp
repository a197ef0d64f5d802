#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "wick/core/detail/autocast.h"
#include "wick/tools/wick/commands.h"

namespace wick::tool {

namespace {

const char* gradient_of(const OpType& op) {
  if (op.info.is_gradient) return "no second";
  return op.backward == nullptr ? "no" : "yes";
}

void show_ops() {
  std::vector<const OpType*> ops(registered_ops().begin(), registered_ops().end());
  std::sort(ops.begin(), ops.end(), [](const OpType* a, const OpType* b) {
    return std::string_view(a->info.name) < b->info.name;
  });
  const auto last = std::unique(ops.begin(), ops.end(), [](const OpType* a, const OpType* b) {
    return std::string_view(a->info.name) == b->info.name;
  });
  ops.erase(last, ops.end());
  constexpr auto kRow = "{:<34} {:<12} {:<12} {:<11} {}\n";
  fmt::print(kRow, "op", "on a GPU", "on the CPU", "derivative", "changes inputs");
  for (const OpType* op : ops) {
    fmt::print(kRow, op->info.name, to_string(op->info.autocast.cuda),
               to_string(op->info.autocast.cpu), gradient_of(*op),
               op->info.mutates != 0 ? "yes" : "no");
  }
  fmt::print(
      "\nUnder autocast an op's float32 and 16-bit inputs are cast:\n"
      "  lower        to float16 (the default on a GPU) or bfloat16 (on the CPU)\n"
      "  float32      to float32\n"
      "  float32 out  to float32, for the sake of its result\n"
      "  widest       to the widest among them\n"
      "  as is        not at all\n"
      "  banned       never: it is an error that names the op to use\n");
}

}  // namespace

void add_ops(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "ops", "Lists every op, and in which precision mixed precision runs it on each device");
  sub->callback([&command] {
    command = [] {
      show_ops();
      return 0;
    };
  });
}

}  // namespace wick::tool
