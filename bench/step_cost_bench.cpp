// What looking at steps costs them: the check that weights stay finite (Optimizer::non_finite), and
// the profiler, off and on. With and without take turns, block by block in one process, and each
// pair of blocks gives a ratio of processor times. The medians of the ratios hold on a busy machine
// too.
// Arguments: WORKLOAD (mlp, resnet20, resnet18, encoder, or memory) [PAIRS] [THREADS].
// "memory" takes 10,000 steps of the MLP under a profiler, and prints the memory of the process.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/tools/common/statistics.h"
#include "wick/wick.h"

namespace {

using namespace wick;

struct Workload {
  std::shared_ptr<nn::Module> model;
  data::Batch batch;
};

Workload make(const std::string& name) {
  manual_seed(0);
  if (name == "encoder") {
    const auto model = std::make_shared<nn::Sequential>();
    for (int i = 0; i < 4; ++i) {
      model->push_back(nn::TransformerEncoderLayer(
          128, 4, {.dim_feedforward = 512, .batch_first = true, .norm_first = true}));
    }
    return {model, {{randn({16, 64, 128}), randint(0, 128, {16, 64})}}};
  }
  const Shape sample = name == "mlp" ? Shape{1, 28, 28} : Shape{3, 32, 32};
  const int64_t batch = name == "mlp" ? 64 : 32;
  const Tensor x = randn({batch, sample[0], sample[1], sample[2]});
  return {nn::find_model(name).make(sample, 10), {{x, randint(0, 10, {batch})}}};
}

// A training step as train::Trainer takes it, with the reading of its figures.
class Training {
 public:
  explicit Training(const std::string& name)
      : work_(make(name)),
        optimizer_(work_.model->parameters(), {.lr = 1e-4}),
        step_(work_.model, optimizer_, [this](const data::Batch& batch) { return loss(batch); }) {}

  void step() {
    const train::Step::Result result = step_.take(work_.batch);
    const Tensor found = result.non_finite;
    const bool is_bad = found.defined() && found.item<int64_t>() != 0;
    WICK_CHECK(!is_bad && result.loss.item() < 1e9, "bench: a step diverged");
  }
  optim::Optimizer& optimizer() { return optimizer_; }

 private:
  train::BatchLoss loss(const data::Batch& batch) {
    const Tensor y = (*work_.model)(batch[0]);
    return {cross_entropy(y.reshape({-1, y.size(-1)}), batch[1].reshape({-1}))};
  }

  Workload work_;
  optim::AdamW optimizer_;
  train::Step step_;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(int64_t count, const std::function<void()>& work) {
  const double start = processor_seconds();
  for (int64_t i = 0; i < count; ++i) work();
  return processor_seconds() - start;
}

// As many calls as take about 10 ms.
int64_t calls_of_block(const std::function<void()>& work) {
  seconds_of(3, work);
  return std::max<int64_t>(1, static_cast<int64_t>(0.01 / (seconds_of(5, work) / 5)));
}

// The cost of what `set(true)` switches on: the times of blocks with it over those of blocks
// without, which take turns in an order that changes from pair to pair.
void compare(const char* what, const std::function<void()>& work, int pairs,
             const std::function<void(bool on)>& set) {
  set(false);
  const int64_t calls = calls_of_block(work);
  std::vector<double> ratios;
  for (int pair = 0; pair < pairs; ++pair) {
    double seconds[2] = {};
    for (const bool on : {pair % 2 == 0, pair % 2 != 0}) {
      set(on);
      seconds[on ? 1 : 0] = seconds_of(calls, work);
    }
    ratios.push_back(seconds[1] / seconds[0]);
  }
  set(false);
  const tool::Interval cost = tool::median_interval(ratios, 0.95);
  std::printf("  %-34s %+6.2f %% [%+.2f, %+.2f], %d pairs of %lld\n", what, 100 * (cost.middle - 1),
              100 * (cost.low - 1), 100 * (cost.high - 1), pairs, static_cast<long long>(calls));
}

// Nanoseconds of a span that nothing records: all that an operation does for a profiler.
double nanoseconds_of_span() {
  constexpr int64_t kSpans = 20'000'000;
  const double start = processor_seconds();
  for (int64_t i = 0; i < kSpans; ++i) {
    const profile::Span span(profile::EventKind::kOp, "span");
    WICK_CHECK(!span, "bench: a profiler runs");
  }
  return 1e9 * (processor_seconds() - start) / static_cast<double>(kSpans);
}

// Two spans for each event that a profiler can record of a step, which is more than there are, over
// the time of a step.
void bound_of_off(Training& training, double step_seconds) {
  profile::Profiler prof({.record_shapes = true, .profile_memory = true, .with_modules = true});
  prof.start();
  training.step();
  prof.stop();
  const auto events = static_cast<double>(prof.recording().events.size());
  const double share = 2 * events * nanoseconds_of_span() * 1e-9 / step_seconds;
  std::printf("  %-34s %+6.3f %% at most: %.0f events of a step, %.2f ns a span\n", "profiler off",
              100 * share, events, nanoseconds_of_span());
}

// Self times of the thread that takes the steps, over the clock's time.
void sum_of_self_times(Training& training, int64_t steps) {
  profile::Profiler prof;
  prof.start();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i) training.step();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  prof.stop();
  std::printf("  %-34s %6.2f %% of the time of %lld steps\n", "self times",
              100 * prof.key_averages().self_cpu_time_total() / time.count(),
              static_cast<long long>(steps));
}

void run(const std::string& name, int pairs) {
  Training training(name);
  const auto step = [&] { training.step(); };
  const auto update = [&] { training.optimizer().step(); };
  const auto check = [&](bool on) { training.optimizer().set_check_finite(on); };
  seconds_of(3, step);
  const double once = seconds_of(10, step) / 10;
  std::printf("%s, %.3f ms a step, of which the update %.3f ms, %d threads\n", name.c_str(),
              1e3 * once, 1e3 * seconds_of(10, update) / 10, num_threads());
  compare("weights checked, update alone", update, 4 * pairs, check);
  compare("weights checked", step, pairs, check);
  check(true);
  bound_of_off(training, once);
  std::unique_ptr<profile::Profiler> prof;
  compare("profiler on, without shapes", step, pairs, [&](bool on) {
    prof.reset();
    if (!on) return;
    prof = std::make_unique<profile::Profiler>();
    prof->start();
  });
  sum_of_self_times(training, 5);
}

double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4096 / 1e6;
}

// Recordings of 10 steps, one after the other; or one, which keeps 100,000 events.
void watch_memory(bool by_cycles) {
  Training training("mlp");
  int64_t recordings = 0, events = 0;
  profile::ProfilerOptions options{.max_events = 100'000};
  if (by_cycles) {
    options.schedule = profile::Schedule{.active = 10};
    options.on_trace_ready = [&](profile::Profiler& prof) {
      ++recordings;
      events += std::ssize(prof.recording().events);
    };
  }
  profile::Profiler prof(options);
  prof.start();
  std::printf("%s\n", by_cycles ? "recordings of 10 steps" : "one recording of 100,000 events");
  for (int64_t step = 1; step <= 10'000; ++step) {
    training.step();
    prof.step();
    if (step == 100 || step % 2500 == 0) {
      std::printf("  step %5lld: %.1f MB\n", static_cast<long long>(step), resident_megabytes());
    }
  }
  prof.stop();
  if (!by_cycles) {
    recordings = 1;
    events = std::ssize(prof.recording().events);
  }
  std::printf("  %lld recordings, %lld events kept, %lld left out of the last\n",
              static_cast<long long>(recordings), static_cast<long long>(events),
              static_cast<long long>(prof.recording().dropped));
}

}  // namespace

int main(int argc, char** argv) try {
  WICK_CHECK(argc >= 2 && argc <= 4, "bench: expected WORKLOAD [PAIRS] [THREADS]");
  set_num_threads(argc > 3 ? std::stoi(argv[3]) : 1);
  if (std::string(argv[1]) == "memory") {
    watch_memory(/*by_cycles=*/true);
    watch_memory(/*by_cycles=*/false);
  } else {
    run(argv[1], argc > 2 ? std::stoi(argv[2]) : 200);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
