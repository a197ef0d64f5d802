#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

#include "wick/core/serialize.h"
#include "wick/tools/common/printable.h"
#include "wick/tools/common/progress.h"
#include "wick/tools/wick/commands.h"
#include "wick/train/classifier.h"

namespace wick::tool {

namespace {

struct EvalFlags {
  std::string run_dir;
  std::string weights;
  std::string data_dir;
  std::string device = "auto";
  std::string compile = "off";
  bool json = false;
};

int eval(const EvalFlags& flags) {
  train::EvaluationOptions options;
  options.compile = train::compile_mode(flags.compile);
  const auto folder = train::RunFolder::open(flags.run_dir);
  train::Recipe recipe = train::resolve(train::recipe_from_json(folder.config_file()));
  if (!flags.data_dir.empty()) recipe.data.dir = flags.data_dir;
  train::check(recipe);
  recipe.run.device = flags.device;
  recipe.run.resume = true;  // what it has no use of was told when it began
  folder.load_plans();
  const TensorMap weights =
      load_safetensors(flags.weights.empty() ? folder.weights_file() : flags.weights);
  train::Classifier classifier(recipe);
  classifier.model()->load_state_dict(weights);
  const data::Dataset& test = *classifier.data().test;
  Progress progress(flags.json);
  data::Prefetcher loader =
      data::load_ahead(classifier.data().test, classifier.test_loading(), classifier.device());
  options.autocast = train::autocast_dtype(recipe.arithmetic);
  options.on_batch = [&](int64_t done) { progress.show_evaluation(done, test.size()); };
  const train::Evaluation result =
      train::evaluate(*classifier.model(), loader, classifier.evaluation_loss(), options);
  const double accuracy = train::find(result.means, "accuracy").value_or(0);
  progress.finish_line();
  if (flags.json) {
    nlohmann::ordered_json line;
    line["test_loss"] = result.loss;
    line["test_accuracy"] = accuracy;
    line["images"] = result.samples;
    if (result.skipped > 0) line["skipped_images"] = result.skipped;
    if (!result.why_eager.empty()) line["why_eager"] = result.why_eager;
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{} on {}: test loss {:.4f}, test accuracy {:.2f} % of {} images\n",
               recipe.model.name, recipe.data.name, result.loss, 100 * accuracy, result.samples);
    if (result.skipped > 0) {
      fmt::print("left out {} test images that cannot be read, the last: {}\n", result.skipped,
                 printable(result.last_skipped));
    }
    if (!result.why_eager.empty()) fmt::print("{}\n", result.why_eager);
  }
  if (!std::isfinite(result.loss)) {
    throw train::Diverged(concat("eval: the test loss is ", result.loss,
                                 ": the weights, or what they compute, are infinite or NaN"));
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("eval", "Evaluates a run's weights on its test images");
  auto flags = std::make_shared<EvalFlags>();
  sub->add_option("--run-dir", flags->run_dir, "folder of the run")->required();
  sub->add_option("--weights", flags->weights, "other weights of the same model (safetensors)");
  sub->add_option("--data-dir", flags->data_dir, "where the data's files are now");
  sub->add_option("--device", flags->device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  sub->add_option("--compile", flags->compile,
                  "trace the model and run it as a graph: with elementwise ops fused, or after all "
                  "passes, with batch norms folded into convolutions: off, fuse or full")
      ->capture_default_str();
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->callback([flags, &command] { command = [flags] { return eval(*flags); }; });
}

}  // namespace wick::tool
