// wick-study: what `wick study` and `wick report` run. A program of its own, so that `wick` alone
// is built quickly.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>

#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/standard_files.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/study/report.h"
#include "wick/tools/study/run.h"
#include "wick/tools/study/scaling.h"
#include "wick/tools/study/scaling_lab.h"
#include "wick/tools/study/worker.h"

namespace {

using wick::study::StudyOptions;
using wick::tool::kFailedExit;
using wick::tool::kUsageExit;

int list_techniques() {
  for (const wick::study::Technique& technique : wick::study::techniques()) {
    fmt::print("{:<26}{:<58}docs/{}\n", technique.id,
               std::string(technique.title) + (technique.needs_gpu ? " (needs a GPU)" : ""),
               technique.page);
  }
  fmt::print("{:<26}{:<58}docs/study.md\n", wick::study::kLadder,
             "From the articles' script to everything on");
  fmt::print("{:<26}{:<58}docs/scaling.md\n", wick::study::kScaling,
             "Data parallelism on up to 10,000 ranks (if named)");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("What each known optimization of training is worth on this machine.", "wick");
  app.require_subcommand(1);
  StudyOptions options;
  bool list = false;
  CLI::App* study = app.add_subcommand(
      "study", "Measures techniques off and on in turn, and writes a page about them");
  study->add_option("NAME", options.names,
                    "techniques to measure, ladder or scaling; all but scaling if none is named");
  study->add_flag("--list", list, "name the techniques and end");
  study->add_flag("--quick", options.quick, "about ten minutes, with wider intervals");
  study->add_option("--device", options.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  study->add_option("--data", options.data, "data set of the workloads that load one")
      ->capture_default_str();
  study->add_option("--data-dir", options.data_dir, "folder that holds the data's files");
  study->add_option("--threads", options.threads, "threads that compute (default: the cores)")
      ->check(CLI::Range(1, 1024));
  wick::tool::add_number_flag(*study, "--seconds", options.seconds, 0, 1e6,
                              "time for each comparison (0: 12, with --quick 1.6)");
  study->add_option("--run-dir", options.run_dir,
                    "folder for what is measured; one that holds a study goes on with it");
  study->add_option("--bench", options.bench,
                    "JSON file of wick bench, to show kernels against the machine's limits");
  wick::tool::add_number_flag(*study, "--link-gbit", options.link_gigabits, 1e-3, 1e5,
                              "scaling: rate of the links to predict for, in Gbit/s");
  wick::tool::add_number_flag(*study, "--link-us", options.link_microseconds, 0, 1e6,
                              "scaling: their latency");
  study->footer("Example: wick study --quick; wick study fused-norm bfloat16");

  wick::study::ReportOptions report_options;
  CLI::App* report = app.add_subcommand("report", "Writes a page about training runs");
  report->add_option("RUN", report_options.runs, "folders of runs; several are compared")
      ->required();
  report->add_option("--out", report_options.out,
                     "file to write (default: report.html in the "
                     "first folder)");
  report->add_option("--data-dir", report_options.data_dir, "where the data's files are now");
  report->add_flag("--no-evaluation", report_options.no_evaluation,
                   "leave out what needs the model to run: confusions, worst errors, pictures");
  try {
    app.parse(argc, argv);
    if (*report) return wick::study::run_report(report_options);
    return list ? list_techniques() : wick::study::run_study(options);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "wick: {}\n", error.what());
    return kUsageExit;
  } catch (const wick::tool::UsageError& error) {
    fmt::print(stderr, "wick: {}\n", error.what());
    return kUsageExit;
  } catch (const std::exception& error) {
    fmt::print(stderr, "wick: {}\n", error.what());
    return kFailedExit;
  }
}

}  // namespace

int main(int argc, char** argv) {
  wick::tool::open_standard_files();
  std::signal(SIGXFSZ, SIG_IGN);
  const std::string first = argc == 3 ? argv[1] : "";
  if (first == "worker") return wick::study::serve(argv[2]);
  if (first == "rank") return wick::study::serve_rank(argv[2]);
  if (first == "lab") return wick::study::serve_lab(argv[2]);
  const int code = run(argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (code != 0) return code;
  fmt::print(stderr, "wick: cannot write to standard output\n");
  return kFailedExit;
}
