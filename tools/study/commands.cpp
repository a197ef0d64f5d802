#include "wick/tools/study/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "wick/tools/common/number_flag.h"
#include "wick/tools/study/report.h"
#include "wick/tools/study/run.h"
#include "wick/tools/study/scaling.h"
#include "wick/tools/study/scaling_lab.h"
#include "wick/tools/study/worker.h"

namespace wick::study {

namespace {

int list_techniques() {
  for (const Technique& technique : techniques()) {
    fmt::print("{:<26}{:<58}docs/{}\n", technique.id,
               std::string(technique.title) + (technique.needs_gpu ? " (needs a GPU)" : ""),
               technique.page);
  }
  fmt::print("{:<26}{:<58}docs/study.md\n", kLadder, "From the articles' script to everything on");
  fmt::print("{:<26}{:<58}docs/scaling.md\n", kScaling,
             "Data parallelism on up to 10,000 ranks (if named)");
  return 0;
}

struct StudyFlags {
  StudyOptions options;
  bool list = false;
};

}  // namespace

void add_study(CLI::App& app, tool::Command& command) {
  CLI::App* sub = app.add_subcommand(
      "study", "Measures what each optimization is worth here, on a page of charts");
  auto flags = std::make_shared<StudyFlags>();
  StudyOptions& options = flags->options;
  sub->add_option("NAME", options.names,
                  "techniques to measure, ladder or scaling (default: all but scaling)");
  sub->add_flag("--list", flags->list, "name the techniques and end");
  sub->add_flag("--quick", options.quick, "take about ten minutes, with wider intervals");
  sub->add_option("--device", options.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  sub->add_option("--data", options.data, "data set of the workloads that load one")
      ->capture_default_str();
  sub->add_option("--data-dir", options.data_dir, "folder that holds the data's files");
  sub->add_option("--threads", options.threads, "threads that compute (default: the cores)")
      ->check(tool::whole_number_in(1, 1024));
  tool::add_number_flag(*sub, "--seconds", options.seconds, 0, 1e6,
                        "seconds for each comparison (0: 12, with --quick 1.6)");
  sub->add_option("--run-dir", options.run_dir,
                  "folder for what is measured; one that holds a study goes on with it");
  sub->add_option("--bench", options.bench,
                  "JSON file of wick bench, to show kernels against the machine's limits");
  tool::add_number_flag(*sub, "--link-gbit", options.link_gigabits, 1e-3, 1e5,
                        "rate of the links that scaling predicts for, in Gbit/s");
  tool::add_number_flag(*sub, "--link-us", options.link_microseconds, 0, 1e6,
                        "latency of the links that scaling predicts for, in microseconds");
  sub->footer("Example: wick study --quick; wick study fused-norm bfloat16");
  sub->callback([flags, &command] {
    command = [flags] { return flags->list ? list_techniques() : run_study(flags->options); };
  });
}

void add_report(CLI::App& app, tool::Command& command) {
  CLI::App* sub = app.add_subcommand(
      "report", "Writes a page about training runs, one or several side by side");
  auto options = std::make_shared<ReportOptions>();
  sub->add_option("RUN", options->runs, "folders of runs; several are compared")->required();
  sub->add_option("--out", options->out,
                  "file to write (default: report.html in the first folder)");
  sub->add_option("--data-dir", options->data_dir, "where the data's files are now");
  sub->add_flag("--no-evaluation", options->no_evaluation,
                "leave out what needs the model to run: confusions, worst errors, pictures");
  sub->callback([options, &command] { command = [options] { return run_report(*options); }; });
}

std::optional<int> serve_study(const std::vector<std::string>& words) {
  if (words.size() != 2) return {};
  if (words[0] == kWorkerWord) return serve(words[1]);
  if (words[0] == kRankWord) return serve_rank(words[1]);
  if (words[0] == kLabWord) return serve_lab(words[1]);
  return {};
}

}  // namespace wick::study
