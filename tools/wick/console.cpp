#include "wick/tools/wick/console.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "wick/core/memory/stats.h"
#include "wick/tools/common/printable.h"

namespace wick::tool {

Console::Console(const train::Recipe& recipe, bool json, const train::Ranks& ranks, Device device)
    : recipe_(recipe),
      json_(json && ranks.first()),
      text_(!json && ranks.first()),
      device_(device),
      progress_(!text_) {}

void Console::follow(train::TrainerOptions& options, int64_t test_images) {
  options.on_step = [this](const train::StepEvent& event) { show(event); };
  options.on_epoch = [this](const train::EpochEvent& event) { show(event); };
  options.on_jump = [this](const train::JumpEvent& event) { show(event); };
  options.on_log = [this](const std::string& line) { print_json(line); };
  options.on_checkpoint = [this](int64_t step, const std::string& path) {
    if (!json_) return;
    print_json(nlohmann::ordered_json{{"event", "checkpoint"}, {"step", step}, {"path", path}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  options.on_failed_save = [this](const std::string& problem) {
    progress_.finish_line();
    fmt::print(stderr, "wick: {}; the run goes on, and tries again\n", printable(problem));
  };
  options.on_evaluation_batch = [this, test_images](int64_t done) {
    progress_.show_evaluation(done, test_images);
  };
}

void Console::set_length(int64_t steps_per_epoch, int64_t total_steps) {
  steps_per_epoch_ = steps_per_epoch;
  total_steps_ = total_steps;
}

void Console::print_json(const std::string& line) const {
  if (!json_) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Console::show(const train::StepEvent& event) {
  if (event.epoch != epoch_) images_ = 0, correct_ = 0;
  epoch_ = event.epoch;
  images_ += event.samples;
  correct_ += train::find(event.means, "accuracy").value_or(0) * static_cast<double>(event.samples);
  StepReport shown;
  shown.epoch = event.epoch;
  shown.epochs = *recipe_.run.epochs;
  shown.step = (event.step - 1) % steps_per_epoch_ + 1;
  shown.steps = steps_per_epoch_;
  shown.last = shown.step == shown.steps || event.step == total_steps_;
  shown.loss = event.loss;
  shown.accuracy = correct_ / static_cast<double>(images_);
  shown.images_per_second = event.samples_per_second;
  shown.data_wait = event.data_wait;
  const int64_t images_left = (total_steps_ - event.step) * *recipe_.loading.batch_size;
  shown.seconds_left = static_cast<double>(images_left) / event.samples_per_second;
  shown.memory_bytes = static_cast<int64_t>(max_memory_allocated(device_));
  progress_.show(shown);
}

void Console::show(const train::EpochEvent& event) {
  progress_.finish_line();
  if (!text_ || !event.evaluation) return;
  const std::string when = event.is_whole ? concat("epoch ", event.epoch, "/", *recipe_.run.epochs)
                                          : concat("step ", event.step, ", in epoch ", event.epoch);
  fmt::print("{}  test loss {:.4f}  test accuracy {:.2f} %\n", when, event.evaluation->loss,
             100 * train::find(event.evaluation->means, "accuracy").value_or(0));
  std::fflush(stdout);
}

void Console::show(const train::JumpEvent& event) {
  if (!text_) return;
  progress_.finish_line();
  fmt::print(stderr, "step {}: the {} jumped to {:.4g}, from {:.4g} before: batch {} of epoch {}\n",
             event.step, event.figure, event.value, event.usual, event.batch, event.epoch);
}

void Console::finish(const train::Trainer& trainer, const optim::Optimizer& optimizer,
                     const std::string& run_dir) {
  nlohmann::ordered_json line;
  line["event"] = "end";
  line["step"] = trainer.step();
  if (const auto& evaluation = trainer.evaluation()) {
    line["test_loss"] = evaluation->loss;
    for (const auto& [name, value] : evaluation->means) line["test_" + name] = value;
  }
  line["run_dir"] = run_dir;
  line["optimizer_state_bytes"] = optimizer.state_bytes();
  if (const int64_t skipped = trainer.loader().skipped(); skipped > 0) {
    line["skipped_images"] = skipped;
    if (text_) {
      fmt::print("left out {} times an image that cannot be read, the last: {}\n", skipped,
                 printable(trainer.loader().last_skipped()));
    }
  }
  if (const std::string why = trainer.why_eager(); !why.empty()) {
    line["why_eager"] = why;
    if (text_) fmt::print("{}\n", why);
  }
  if (const auto& evaluation = trainer.evaluation(); evaluation && evaluation->skipped > 0) {
    line["skipped_test_images"] = evaluation->skipped;
    if (text_) {
      fmt::print("left out {} test images that cannot be read, the last: {}\n", evaluation->skipped,
                 printable(evaluation->last_skipped));
    }
  }
  print_json(line.dump());
}

}  // namespace wick::tool
