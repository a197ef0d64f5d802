// One rank of training with DistributedDataParallel, which bench/peers/ddp.py starts and tells what
// to do. Arguments: WORKLOAD IMAGES THREADS, of each rank. Then a line per command on standard
// input, each answered by a number:
//   run N       seconds of N training steps
//   plain N     the same without the wrapper, on a model of its own
//   replicas N  the same by DataParallel, with two replicas in this process
//   sharded N   the same with the optimizer's state shared out among the ranks (ZeRO stage 1)
//   compiled N  the same with the step as a graph (graph::compile_step)
//   overlap N   of the time in which gradients were exchanged, the part before the last gradient
//   compiled_overlap N  the same of compiled steps
//   trace FILE  seconds of one step, of which FILE becomes a trace (a JSON list of Chrome's events)
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "wick/wick.h"

namespace {

using namespace wick;

struct Data {
  Tensor x, target;
};

std::shared_ptr<nn::Module> make_model(const std::string& workload) {
  manual_seed(0);
  if (workload == "mlp") {
    return std::make_shared<nn::Sequential>(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512),
                                            nn::ReLU(), nn::Linear(512, 10));
  }
  WICK_CHECK(workload == "resnet18", "bench_ddp: unknown workload: got \"", workload, "\"");
  nn::ResNetOptions options;
  options.classes = 10;
  options.small_input = true;
  return std::make_shared<nn::ResNet>(nn::resnet18(options));
}

Data make_data(const std::string& workload, int64_t images) {
  const Tensor x = workload == "mlp"
                       ? randn({images, 784})
                       : randn({images, 3, 32, 32}).contiguous(MemoryFormat::kChannelsLast);
  return {x, randint(0, 10, {images})};
}

/// A model and what trains it.
class Training {
 public:
  Training(std::shared_ptr<nn::Module> model, Data data)
      : model_(std::move(model)),
        optimizer_(model_->parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4}),
        data_(std::move(data)) {}

  optim::Optimizer& optimizer() { return optimizer_; }
  Tensor loss() { return cross_entropy((*model_)(data_.x), data_.target); }
  void step() {
    optimizer_.zero_grad();
    loss().backward();
    optimizer_.step();
  }
  void step_compiled() { compiled_({}); }

 private:
  std::shared_ptr<nn::Module> model_;
  optim::SGD optimizer_;
  Data data_;
  graph::CompiledFunction compiled_ = graph::compile_step([this](const std::vector<Tensor>&) {
    step();
    return std::vector<Tensor>();
  });
};

// Of one backward: microseconds in which reductions were under way, in all and before the last
// bucket was full.
std::pair<double, double> exchange_of(Training& training, dist::ProcessGroup& group,
                                      bool is_compiled) {
  const Tensor loss = is_compiled ? Tensor() : training.loss();
  group.barrier().wait();
  if (is_compiled) {
    training.step_compiled();
  } else {
    loss.backward();
  }
  const std::vector<dist::FlightRecord> records = group.flight_records();
  const auto end = static_cast<double>(records.back().queued_us);
  double all = 0, before = 0;
  for (size_t i = records.size(); i-- > 0;) {
    if (records[i].kind == dist::CollectiveKind::kBarrier) break;
    if (records[i].kind != dist::CollectiveKind::kAllReduce) continue;  // of buffers
    const auto from = static_cast<double>(records[i].begin_us);
    const auto to = static_cast<double>(records[i].end_us);
    all += to - from;
    before += std::max(0.0, std::min(to, end) - from);
  }
  return {all, before};
}

// One step, in microseconds since all ranks stood at its beginning: what the thread of the training
// did, and beside it each collective of the group.
double write_trace(const std::string& path, Training& training, dist::ProcessGroup& group) {
  using Clock = std::chrono::steady_clock;
  nlohmann::json events;
  const auto add = [&](const char* thread, const std::string& what, double begin, double end) {
    events.push_back({{"ph", "X"},
                      {"pid", concat("rank ", group.rank())},
                      {"tid", thread},
                      {"name", what},
                      {"ts", begin},
                      {"dur", end - begin}});
  };
  training.optimizer().zero_grad();
  group.barrier().wait();
  const auto start = Clock::now();
  const int64_t zero = group.flight_records().back().end_us;
  double now = 0;
  const auto done = [&](const char* what) {
    const double end = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    add("training", what, now, end);
    now = end;
  };
  const Tensor loss = training.loss();
  done("forward");
  loss.backward();
  done("backward");
  training.optimizer().step();
  done("optimizer");
  for (const dist::FlightRecord& record : group.flight_records()) {
    if (record.begin_us < zero) continue;
    add("exchange", record.description, static_cast<double>(record.begin_us - zero),
        static_cast<double>(record.end_us - zero));
  }
  std::ofstream(path) << events;
  return now * 1e-6;
}

int serve(const std::string& workload, int64_t images) {
  const auto env = dist::launch_env();
  const auto group = env ? dist::init_process_group(*env) : dist::make_local_groups(1)[0];
  const Data data = make_data(workload, images);
  const auto wrap = [&] {
    return std::make_shared<dist::DistributedDataParallel>(make_model(workload), group);
  };
  Training plain(make_model(workload), data), wrapped(wrap(), data), compiled(wrap(), data);
  Training replicas(std::make_shared<dist::DataParallel>([&] { return make_model(workload); },
                                                         std::vector<Device>{kCpu, kCpu}),
                    data);
  const auto shared_model = wrap();
  Training shared(shared_model, data);
  dist::shard_optimizer(shared.optimizer(), *shared_model);
  std::cout << "ready wick" << std::endl;
  std::string command, argument;
  while (std::cin >> command >> argument) {
    if (command == "trace") {
      std::cout << write_trace(argument, wrapped, *group) << std::endl;
      continue;
    }
    const int64_t count = std::stoll(argument);
    const bool is_compiled = command.starts_with("compiled");
    if (command == "overlap" || command == "compiled_overlap") {
      double all = 0, before = 0;
      for (int64_t i = 0; i < count; ++i) {
        const auto [whole, early] =
            exchange_of(is_compiled ? compiled : wrapped, *group, is_compiled);
        all += whole;
        before += early;
      }
      std::cout << before / all << std::endl;
      continue;
    }
    Training& training = command == "plain"      ? plain
                         : command == "replicas" ? replicas
                         : command == "sharded"  ? shared
                         : is_compiled           ? compiled
                                                 : wrapped;
    group->barrier().wait();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < count; ++i) {
      if (is_compiled) {
        training.step_compiled();
      } else {
        training.step();
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << seconds.count() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  WICK_CHECK(argc == 4, "bench_ddp: expected WORKLOAD IMAGES THREADS");
  set_num_threads(std::stoi(argv[3]));
  return serve(argv[1], std::stoll(argv[2]));
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
