// Groups whose GPUs exchange tensors by NCCL. Their ranks are threads, each with a GPU of its own;
// what fails does so at will, and so needs the simulated ones, for which kernels/sim/nccl.cpp
// stands in.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "wick/core/core.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/detail/nccl.h"
#include "wick/dist/join.h"
#include "wick/dist/zero.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"
#include "wick/tests/dist/peers.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/sanitized.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/nccl.h"
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::dist {
namespace {

using std::chrono::milliseconds;

#define WICK_NEEDS_NCCL(ranks) \
  if (!has_nccl(ranks)) GTEST_SKIP() << "no NCCL, or fewer GPUs than " << (ranks)

ProcessGroupOptions by_nccl(int rank) {
  return {
      .timeout = std::chrono::minutes(2), .backend = Backend::kNccl, .device = cuda_device(rank)};
}

std::vector<std::string> errors_by_nccl(int size, const std::function<void(const Group&)>& body,
                                        milliseconds timeout = std::chrono::minutes(2),
                                        const std::string& flight_folder = "") {
  return errors_on_unequal_peers(size, body, [&](int rank) {
    ProcessGroupOptions options = by_nccl(rank);
    options.timeout = timeout;
    options.flight_folder = flight_folder;
    return options;
  });
}

void on_nccl(int size, const std::function<void(const Group&)>& body) {
  for (const std::string& error : errors_by_nccl(size, body)) EXPECT_EQ(error, "");
}

Tensor given_to_nccl(int rank, const Shape& shape, Dtype dtype = kFloat32) {
  Generator generator(static_cast<uint64_t>(700 + rank));
  return randn(shape, kFloat64, kCpu, &generator).mul(4).to(dtype);
}
Tensor on_gpu_of(const Group& group, const Tensor& x) { return x.to(cuda_device(group->rank())); }

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.cpu().to(kFloat64).to_vector<double>();
  const std::vector<double> y = b.cpu().to(kFloat64).to_vector<double>();
  EXPECT_EQ(x.size(), y.size());
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i])));
  }
  return largest;
}

// What a value may be off by whose 16 bits are rounded at each of two additions.
double tolerance_of(Dtype dtype) {
  if (dtype == kBFloat16) return 3e-2;
  if (dtype == kFloat16) return 4e-3;
  return dtype == kFloat32 ? 2e-6 : 1e-14;
}

TEST(Nccl, ReducesEveryDtype) {
  WICK_NEEDS_NCCL(3);
  on_nccl(3, [](const Group& group) {
    for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16, kFloat16, kInt64, kInt32, kUint8}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct,
                                ReduceOp::kMin, ReduceOp::kMax}) {
        if (op == ReduceOp::kAverage && !is_floating(dtype)) continue;
        const Shape shape = {7, 3};
        const bool is_real = is_floating(dtype);
        std::vector<Tensor> given;
        for (int r = 0; r < 3; ++r) {
          given.push_back(given_to_nccl(r, shape, dtype).to(is_real ? kFloat64 : dtype));
        }
        const Tensor expected = reduce_by_hand(given, op);
        const Tensor x = on_gpu_of(group, given_to_nccl(group->rank(), shape, dtype));
        group->all_reduce(x, op).wait();
        EXPECT_LE(largest_difference(x, expected), tolerance_of(dtype))
            << to_string(op) << " in " << dtype;
      }
    }
  });
}

TEST(Nccl, BroadcastsGathersScattersAndSends) {
  WICK_NEEDS_NCCL(4);
  on_nccl(4, [](const Group& group) {
    const int rank = group->rank();
    EXPECT_EQ(group->transport().substr(0, 5), "NCCL ");
    const Tensor x = on_gpu_of(group, given_to_nccl(rank, {5}));
    group->broadcast(x, 2).wait();
    EXPECT_TRUE(testing::bit_equal(x.cpu(), given_to_nccl(2, {5})));

    const Tensor all = on_gpu_of(group, zeros({4, 2, 3}));
    group->all_gather(on_gpu_of(group, given_to_nccl(rank, {2, 3})), all).wait();
    for (int r = 0; r < 4; ++r) {
      EXPECT_TRUE(testing::bit_equal(all[r].cpu(), given_to_nccl(r, {2, 3})));
    }
    const Tensor flags = on_gpu_of(group, zeros({4, 1}, kBool));
    group->all_gather(on_gpu_of(group, full({1}, rank % 2, kBool)), flags).wait();
    EXPECT_EQ(flags.cpu().to(kInt64).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0, 1}));

    const Tensor mine = on_gpu_of(group, zeros({3}));
    group->reduce_scatter(on_gpu_of(group, given_to_nccl(rank, {4, 3})), mine).wait();
    Tensor expected = given_to_nccl(0, {4, 3})[rank].clone();
    for (int r = 1; r < 4; ++r) expected += given_to_nccl(r, {4, 3})[rank];
    EXPECT_LE(largest_difference(mine, expected), tolerance_of(kFloat32));

    const Tensor left = on_gpu_of(group, zeros({6}));
    const Tensor right = on_gpu_of(group, given_to_nccl(rank, {6}));
    pass_around(group, right, left);
    EXPECT_TRUE(testing::bit_equal(left.cpu(), given_to_nccl((rank + 3) % 4, {6})));
    // Those of the CPU go their own way, and what is empty goes none.
    const Tensor on_cpu = full({9}, rank);
    group->all_reduce(on_cpu).wait();
    EXPECT_EQ(on_cpu.to_vector<float>(), std::vector<float>(9, 6));
    group->all_reduce(on_gpu_of(group, zeros({0, 3}))).wait();
    group->barrier().wait();
  });
}

TEST(Nccl, KeepsTheOrderOfCallsAndOfTheStream) {
  WICK_NEEDS_NCCL(2);
  on_nccl(2, [](const Group& group) {
    const int rank = group->rank();
    Tensor x = full({1000}, rank + 1, kFloat32, cuda_device(rank));
    for (int i = 0; i < 20; ++i) {
      const Tensor y = x * 2;  // queued before: the collective has to wait for it
      group->all_reduce(y);
      group->all_reduce(y, ReduceOp::kAverage).wait();
      x = y / 2;
    }
    EXPECT_EQ(x.cpu().to_vector<float>(), std::vector<float>(1000, 3 * float{1 << 19}));
    const Tensor image =
        on_gpu_of(group, given_to_nccl(rank, {2, 3, 5, 4})).contiguous(MemoryFormat::kChannelsLast);
    group->all_reduce(image).wait();
    const Tensor expected = given_to_nccl(0, {2, 3, 5, 4}) + given_to_nccl(1, {2, 3, 5, 4});
    EXPECT_LE(largest_difference(image, expected), tolerance_of(kFloat32));
  });
}

// For each rank, on its GPU. All draw from one generator, and so not in the ranks' threads.
std::vector<std::shared_ptr<nn::Module>> two_models_on_gpus() {
  std::vector<std::shared_ptr<nn::Module>> models;
  for (int r = 0; r < 2; ++r) {
    manual_seed(5);
    models.push_back(nn::find_model("mlp").make({3, 8, 8}, 10));
    models.back()->to(cuda_device(r));
  }
  return models;
}

std::vector<Tensor> gradients_on_gpu(const Group& group, const std::shared_ptr<nn::Module>& net) {
  const Device device = cuda_device(group->rank());
  DistributedDataParallel model(net, group, {.bucket_bytes = 1 << 12, .first_bucket_bytes = 64});
  Generator generator(static_cast<uint64_t>(group->rank()));
  const Tensor images = randn({2, 3, 8, 8}, kFloat32, kCpu, &generator).to(device);
  const Tensor labels = randint(0, 10, {2}, kInt64, kCpu, &generator).to(device);
  for (int i = 0; i < 2; ++i) {
    model.zero_grad();
    cross_entropy(model(images), labels).backward();
  }
  std::vector<Tensor> gradients;
  for (const Tensor& p : net->parameters()) gradients.push_back(p.grad().cpu());
  return gradients;
}

TEST(Nccl, TrainsLikeALocalGroup) {
  WICK_NEEDS_NCCL(2);
  std::vector<Tensor> expected;
  auto models = two_models_on_gpus();
  const auto own = [&](const Group& group) { return models[static_cast<size_t>(group->rank())]; };
  on_ranks(2, [&](const Group& group) {
    const std::vector<Tensor> gradients = gradients_on_gpu(group, own(group));
    if (group->rank() == 0) expected = gradients;
  });
  models = two_models_on_gpus();
  on_nccl(2, [&](const Group& group) {
    const std::vector<Tensor> gradients = gradients_on_gpu(group, own(group));
    ASSERT_EQ(gradients.size(), expected.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_LE(largest_difference(gradients[i], expected[i]), 1e-5) << "parameter " << i;
    }
  });
}

// After training with shared optimizer state on so many inputs of this rank's own.
std::vector<Tensor> weights_of_shared_training(const Group& group,
                                               const std::shared_ptr<nn::Module>& net, int inputs) {
  const Device device = cuda_device(group->rank());
  DistributedDataParallel model(net, group, {.bucket_bytes = 1 << 12, .first_bucket_bytes = 64});
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  shard_optimizer(optimizer, model);
  Generator generator(static_cast<uint64_t>(group->rank()));
  const auto step = [&] {
    optimizer.step();
    optimizer.zero_grad();
  };
  const auto train = [&] {
    for (int i = 0; i < inputs; ++i) {
      const Tensor images = randn({2, 3, 8, 8}, kFloat32, kCpu, &generator).to(device);
      const Tensor labels = randint(0, 10, {2}, kInt64, kCpu, &generator).to(device);
      cross_entropy(model(images), labels).backward();
      step();
    }
  };
  join(model, train, step);
  const optim::StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.empty(), group->rank() != 0);
  std::vector<Tensor> result;
  for (const Tensor& p : net->parameters()) result.push_back(p.detach().cpu());
  for (const auto& [name, x] : state) result.push_back(x.cpu());
  return result;
}

TEST(Nccl, SharesStateAndJoinsLikeALocalGroup) {
  WICK_NEEDS_NCCL(2);
  for (const std::vector<int>& inputs : {std::vector{2, 2}, {1, 3}}) {
    std::vector<Tensor> results[2][2];  // of the local group and by NCCL, of each rank
    for (const bool by_nccl : {false, true}) {
      const auto models = two_models_on_gpus();
      const auto body = [&](const Group& group) {
        const auto rank = static_cast<size_t>(group->rank());
        results[by_nccl][rank] = weights_of_shared_training(group, models[rank], inputs[rank]);
      };
      by_nccl ? on_nccl(2, body) : on_ranks(2, body);
      const size_t weights = models[0]->parameters().size();
      ASSERT_GE(results[by_nccl][1].size(), weights);
      for (size_t i = 0; i < weights; ++i) {
        EXPECT_TRUE(testing::bit_equal(results[by_nccl][0][i], results[by_nccl][1][i])) << i;
      }
    }
    ASSERT_EQ(results[1][0].size(), results[0][0].size());
    for (size_t i = 0; i < results[0][0].size(); ++i) {
      EXPECT_LE(largest_difference(results[1][0][i], results[0][0][i]), 1e-5) << i;
    }
  }
}

TEST(Nccl, ComparesWhatRanksAskFor) {
  WICK_NEEDS_NCCL(2);
  const auto errors = errors_by_nccl(2, [](const Group& group) {
    const Tensor x = on_gpu_of(group, ones({group->rank() + 4}));
    group->all_reduce(x).wait();
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("ranks ask for different collectives"), std::string::npos) << error;
    EXPECT_NE(error.find("all_reduce #1 (sum, float32 [5])"), std::string::npos) << error;
  }
  const auto elsewhere = errors_by_nccl(
      2, [](const Group& group) { group->all_reduce(ones({4}).to(cuda_device(0))).wait(); });
  EXPECT_NE(elsewhere[1].find("the tensor is on cuda:0, but this rank exchanges those of cuda:1"),
            std::string::npos)
      << elsewhere[1];
}

std::vector<std::string> errors_of_backends(std::vector<ProcessGroupOptions> options) {
  return errors_on_unequal_peers(
      static_cast<int>(options.size()), [](const Group&) {},
      [&](int rank) { return options[static_cast<size_t>(rank)]; });
}

TEST(Nccl, IsRefusedWhereItCannotBeUsed) {
  ProcessGroupOptions nccl{.backend = Backend::kNccl, .device = kCpu};
  for (const std::string& error : errors_of_backends({nccl, nccl})) {
    const std::string begin = "process group: backend nccl cannot be used: rank 0: ";
    EXPECT_EQ(error.substr(0, begin.size()), begin);
    EXPECT_GT(error.size(), begin.size() + 10) << error;
  }
  for (const std::string& error : errors_of_backends({nccl, {.backend = Backend::kGloo}})) {
    EXPECT_EQ(error, "process group: ranks want different backends: rank 0 nccl, rank 1 gloo");
  }
  EXPECT_EQ(testing::error_of([] { parse_backend("mpi"); }),
            "backend: unknown: got mpi, expected auto, nccl or gloo");
  WICK_NEEDS_NCCL(1);
  nccl.device = cuda_device(0);
  for (const std::string& error : errors_of_backends({nccl, nccl})) {
    EXPECT_EQ(error,
              "process group: backend nccl cannot be used: ranks 0 and 1 have the same GPU, and "
              "each needs its own");
  }
  // One more than there are.
  const int gpus = cuda_device_count();
  const std::vector<ProcessGroupOptions> unnamed(static_cast<size_t>(gpus) + 1,
                                                 {.backend = Backend::kNccl});
  for (const std::string& error : errors_of_backends(unnamed)) {
    EXPECT_EQ(error, concat("process group: backend nccl cannot be used: ranks 0 and ", gpus,
                            " have the same GPU, and each needs its own, of ", gpus, " that rank ",
                            gpus, " sees"));
  }
  // Nobody asked for it, but all are told why not.
  const auto errors = errors_on_peers(
      2,
      [](const Group& group) {
        EXPECT_EQ(group->transport(),
                  "shared memory and not NCCL: ranks 0 and 1 have the same GPU, and each needs its "
                  "own");
      },
      ProcessGroupOptions{.device = cuda_device(0)});
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Nccl, HasGroupsOfOneRank) {
  WICK_NEEDS_NCCL(1);
  on_nccl(1, [](const Group& group) {
    const Tensor x = full({4}, 3).to(cuda_device(0));
    group->all_reduce(x, ReduceOp::kAverage).wait();
    EXPECT_EQ(x.cpu().to_vector<float>(), std::vector<float>(4, 3));
  });
}

#ifdef WICK_SIM

constexpr milliseconds kShortForNccl{testing::kSanitized ? 1500 : 300};

// Faults for as long as it lives.
class ScopedFaults {
 public:
  explicit ScopedFaults(const sim::NcclFaults& faults) { sim::set_nccl_faults(faults); }
  ~ScopedFaults() { sim::set_nccl_faults({}); }
  ScopedFaults(const ScopedFaults&) = delete;
  ScopedFaults& operator=(const ScopedFaults&) = delete;
};

// Barriers are of the host: they go on until the group is told of what fails on a GPU.
[[noreturn]] void meet_until_it_fails(const Group& group) {
  for (;;) {
    group->barrier().wait();
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void expect_in_all(const std::vector<std::string>& errors, const std::string& words) {
  for (const std::string& error : errors) {
    EXPECT_NE(error.find(words), std::string::npos) << error;
  }
}

TEST(NcclFaults, WhatDoesNotEndIsAborted) {
  const testing::TemporaryFolder folder;
  const ScopedFaults faults({.hangs_from = 2});
  const auto errors = errors_by_nccl(
      2,
      [](const Group& group) {
        const Tensor x = on_gpu_of(group, ones({4})), y = on_gpu_of(group, ones({5}));
        group->all_reduce(x).wait();
        EXPECT_EQ(x.cpu().to_vector<float>(), std::vector<float>(4, 2));
        group->all_reduce(y).wait();
        y.cpu();  // returns, since the GPU goes on once NCCL is aborted
        meet_until_it_fails(group);
      },
      kShortForNccl, folder.path("flight"));
  expect_in_all(errors,
                concat("all_reduce #2 (sum, float32 [5]) (waited for ", kShortForNccl.count(),
                       " ms): all ranks came, and live: a GPU hangs, or what connects "
                       "them"));
  EXPECT_EQ(sim::nccl_communicators(), 0);
  for (const char* name : {"flight/flight-0.json", "flight/flight-1.json"}) {
    std::ifstream file(folder.path(name));
    const auto json = nlohmann::json::parse(file);
    EXPECT_EQ(json["collectives"][0]["state"], "done");
    EXPECT_EQ(json["collectives"][1]["state"], "running");
  }
}

TEST(NcclFaults, WhoseGpuIsBusyElsewhereIsNamed) {
  std::atomic<bool> is_released = false;
  const auto errors = errors_by_nccl(
      3,
      [&](const Group& group) {
        const Tensor x = on_gpu_of(group, ones({4}));
        if (group->rank() == 1) {  // a kernel without an end
          const auto stream =
              static_cast<cudaStream_t>(current_stream(cuda_device(group->rank())).handle);
          cudaSetDevice(1);
          sim::enqueue(
              "endless", stream, [] {}, 0, [&] { return is_released.load(); });
        }
        group->all_reduce(x).wait();
        const std::string error = testing::error_of([&] { meet_until_it_fails(group); });
        is_released = true;
        synchronize(cuda_device(group->rank()));
        throw Error(error);
      },
      kShortForNccl);
  expect_in_all(errors, concat("all_reduce #1 (sum, float32 [4]): this rank's GPU is not done with "
                               "what was queued before it within ",
                               kShortForNccl.count(), " ms"));
  for (const size_t other : {size_t{0}, size_t{2}}) {
    EXPECT_NE(errors[other].find("rank 1 failed"), std::string::npos) << errors[other];
  }
}

TEST(NcclFaults, AsynchronousErrorsEndAllRanks) {
  const ScopedFaults faults({.rank = 1, .hangs_from = 1, .error_from = 1});
  const auto errors = errors_by_nccl(2, [](const Group& group) {
    group->all_reduce(on_gpu_of(group, ones({4}))).wait();
    meet_until_it_fails(group);
  });
  expect_in_all(errors, "NCCL: ");
  expect_in_all(errors, "failed: remote process exited or there was a network error");
  EXPECT_NE(errors[0].find("rank 1 failed"), std::string::npos) << errors[0];
  EXPECT_EQ(sim::nccl_communicators(), 0);
}

TEST(NcclFaults, ErrorsOfCallsEndAllRanks) {
  sim::fail_call(1, cudaErrorUnknown, "ncclAllReduce");
  const auto errors = errors_by_nccl(2, [](const Group& group) {
    group->all_reduce(on_gpu_of(group, ones({4}))).wait();
    meet_until_it_fails(group);
  });
  sim::fail_call(0, cudaSuccess);
  expect_in_all(errors, "NCCL: ncclAllReduce failed: unhandled cuda error");
}

TEST(NcclFaults, ABrokenGpuKeepsNoCommunicator) {
  for (const bool is_group_kept : {true, false}) {  // who ends first: the watcher, or the group
    errors_by_nccl(2, [&](const Group& group) {
      const Tensor x = on_gpu_of(group, ones({4}));
      group->all_reduce(x).wait();
      sim::fail_call(1, cudaErrorIllegalAddress, "cudaDeviceSynchronize");
      testing::error_of([&] { synchronize(cuda_device(group->rank())); });
      if (is_group_kept) group->all_reduce(x).wait();
      throw Error("the rank is done");
    });
    EXPECT_EQ(sim::nccl_communicators(), 0) << is_group_kept;
    sim::fail_call(0, cudaSuccess);
    sim::reset();
  }
}

TEST(NcclFaults, AStartThatHangsEndsInTime) {
  const ScopedFaults faults({.init_hangs = true});
  const auto errors = errors_by_nccl(
      2, [](const Group&) {}, kShortForNccl);
  expect_in_all(errors, concat("ncclCommInitRankConfig (waited for ", kShortForNccl.count(),
                               " ms): all ranks came, and live"));
  EXPECT_EQ(sim::nccl_communicators(), 0);
}

std::atomic<int> count_left = 0;

// Until `condition` holds, or half a minute.
template <class Condition>
void poll_for(const Condition& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(5));
}

TEST(NcclFaults, AnAbortThatHangsMakesTheProcessLeave) {
  count_left = 0;
  {
    const ScopedFaults faults({.hangs_from = 1, .abort_hangs = true});
    const auto errors = errors_on_unequal_peers(
        2,
        [](const Group& group) {
          const Tensor x = on_gpu_of(group, ones({4}));
          group->all_reduce(x).wait();
          poll_for([] { return count_left == 2; });
          sim::set_nccl_faults({});  // a process would be gone by now
          meet_until_it_fails(group);
        },
        [](int rank) {
          ProcessGroupOptions options = by_nccl(rank);
          options.timeout = kShortForNccl;
          options.leave = [](const std::string&) { ++count_left; };
          return options;
        });
    expect_in_all(errors, "a GPU hangs");
  }
  EXPECT_EQ(count_left, 2);
  poll_for([] { return sim::nccl_communicators() == 0; });  // by threads left to themselves
  EXPECT_EQ(sim::nccl_communicators(), 0);
}

#endif

}  // namespace
}  // namespace wick::dist
