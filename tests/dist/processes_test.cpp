// What it takes processes to show: that all learn when one is killed or stopped.
#include "wick/tests/dist/processes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include <unistd.h>

#include "wick/core/core.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/processes.h"
#include "wick/dist/spawn.h"
#include "wick/tests/dist/gradients.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/sanitized.h"

namespace wick::dist {
namespace {

using Body = std::function<void(const Group&)>;

void reduce_for_ever(const Group& group) {
  const Tensor small = ones({100}), large = ones({500'000});
  for (int i = 0;; ++i) {
    group->all_reduce(small, ReduceOp::kMax).wait();
    group->all_reduce(large, ReduceOp::kMax).wait();
    if (i == 3) tell_ready(group->rank());
  }
}

void sum_ranks(const Group& group) {
  const Tensor x = full({300'000}, group->rank() + 1);
  group->all_reduce(x).wait();
  tell(group->rank(), concat("sum ", x.sum().item() / 300'000));
}

// By whatever the group has for GPUs.
void reduce_on_gpu_for_ever(const Group& group) {
  const Tensor x = ones({5000}, kFloat32, cuda_device(group->rank()));
  for (int i = 0;; ++i) {
    group->all_reduce(x, ReduceOp::kMax).wait();
    EXPECT_EQ(x.sum().item(), 5000);
    if (i == 3) tell_ready(group->rank());
  }
}

// Of one batch of which each rank has a part, with batch norm over all ranks.
void save_gradients(const Group& group) {
  const Dtype dtype =
      std::string(std::getenv("WICK_TEST_DTYPE")) == "float64" ? kFloat64 : kFloat32;
  const ModulePtr net = make_model("resnet20", dtype);
  synchronize_batch_norms(*net, group);
  DistributedDataParallel model(net, group);
  const Batch batch = make_batch(wick::testing::kSanitized ? 8 : 32, dtype);
  loss_of(model, part_of(batch, group->rank(), group->size())).backward();
  TensorMap gradients;
  for (const auto& [name, p] : net->named_parameters()) gradients[name] = p.grad();
  save_safetensors(own_file(group->rank(), "gradients"), gradients);
  group->barrier().wait();
}

const std::map<std::string, Body>& rank_bodies() {
  static const std::map<std::string, Body> all = {
      {"reduce_for_ever", reduce_for_ever},
      {"reduce_on_gpu_for_ever", reduce_on_gpu_for_ever},
      {"save_gradients", save_gradients},
      {"sum_ranks", sum_ranks}};
  return all;
}

// --- What a process alone does, which spawns ranks of its own
// -------------------------------------

void spawn_sums() {
  const Tensor given = full({1000}, 1);  // as it was made before
  spawn(
      [&](const LaunchEnv& env) {
        EXPECT_EQ(launch_env()->rank, env.rank);
        const auto group = init_process_group(*launch_env());
        const Tensor x = given * (env.rank + 1);
        group->all_reduce(x).wait();
        tell(env.rank + 1, concat("sum ", x.sum().item() / 1000, " of ", group->size()));
      },
      3);
  tell(0, "all have ended");
}

// Rank 1 fails after it has met the others, who wait for it in vain or are at something else.
void spawn_failure() {
  spawn(
      [](const LaunchEnv& env) {
        const auto group = init_process_group(env);
        tell(env.rank + 1, concat(getpid()));
        group->barrier().wait();
        if (env.rank == 1) throw Error("no such file");
        if (env.rank == 0) group->barrier().wait();
        for (;;) pause();
      },
      3);
}

void spawn_crash() {
  spawn(
      [](const LaunchEnv& env) {
        if (env.rank == 2) raise(SIGKILL);
        for (;;) pause();
      },
      3);
}

void spawn_from_threads() {
  std::atomic<bool> is_over = false;
  std::thread thread([&] {
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  try {
    spawn([](const LaunchEnv&) {}, 2);
  } catch (const Error& error) {
    tell(0, error.what());
  }
  is_over = true;
  thread.join();
}

const std::map<std::string, void (*)()>& lone_bodies() {
  static const std::map<std::string, void (*)()> all = {{"spawn_sums", spawn_sums},
                                                        {"spawn_failure", spawn_failure},
                                                        {"spawn_crash", spawn_crash},
                                                        {"spawn_from_threads", spawn_from_threads}};
  return all;
}

// What a rank does: not a test of its own.
TEST(Processes, DISABLED_Rank) {
  const char* body = std::getenv("WICK_TEST_BODY");
  if (body == nullptr) GTEST_SKIP() << "started by RankProcesses alone";
  if (const auto lone = lone_bodies().find(body); lone != lone_bodies().end()) {
    try {
      lone->second();
    } catch (const Error& error) {
      tell(0, error.what());
    }
    return;
  }
  const LaunchEnv env = *launch_env();
  try {
    ProcessGroupOptions options{
        .timeout = std::chrono::milliseconds(std::atoi(std::getenv("WICK_TEST_TIMEOUT"))),
        .shared_memory = std::getenv("WICK_TEST_TCP") == nullptr};
    if (std::string(body) == "reduce_on_gpu_for_ever") options.backend = Backend::kNccl;
    rank_bodies().at(body)(init_process_group(env, options));
  } catch (const std::exception& error) {
    tell(env.rank, error.what());
    std::_Exit(3);  // as a program would, that does not wait for its threads
  }
}

RankProcesses::Variables variables_of(bool by_tcp, int timeout_ms) {
  RankProcesses::Variables variables = {{"WICK_TEST_TIMEOUT", std::to_string(timeout_ms)}};
  if (by_tcp) variables["WICK_TEST_TCP"] = "1";
  return variables;
}

TEST(Processes, ReduceTogether) {
  for (const bool by_tcp : {false, true}) {
    RankProcesses ranks(3, "sum_ranks", variables_of(by_tcp, 60'000));
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(ranks.wait(r), 0);
      EXPECT_EQ(ranks.words(r), "sum 6");
    }
  }
}

TEST(Spawn, RunsEachRankInAProcess) {
  RankProcesses alone(1, "spawn_sums");
  EXPECT_EQ(alone.wait(0), 0);
  EXPECT_EQ(alone.words(0), "all have ended");
  for (int r = 1; r <= 3; ++r) EXPECT_EQ(alone.words(r), "sum 6 of 3");
}

TEST(Spawn, ThrowsTheErrorOfTheRankThatFailedAndEndsTheOthers) {
  RankProcesses alone(1, "spawn_failure");
  EXPECT_EQ(alone.wait(0), 0);
  EXPECT_EQ(alone.words(0), "spawn: rank 1 failed: no such file");
  for (int r = 1; r <= 3; ++r) {
    const int process = std::atoi(alone.words(r).c_str());
    EXPECT_GT(process, 0);
    EXPECT_EQ(kill(process, 0), -1) << "rank " << r - 1 << " goes on";
  }
}

TEST(Spawn, TellsOfASignal) {
  RankProcesses alone(1, "spawn_crash");
  EXPECT_EQ(alone.wait(0), 0);
  EXPECT_EQ(alone.words(0), "spawn: rank 2 was ended by signal 9 (Killed)");
}

TEST(Spawn, RefusesToLeaveThreadsBehind) {
  RankProcesses alone(1, "spawn_from_threads");
  EXPECT_EQ(alone.wait(0), 0);
  EXPECT_EQ(alone.words(0),
            "spawn: this process has 2 threads, which its ranks would lack: expected 1; call spawn "
            "before tensors are computed and before a GPU is used");
}

// What rank 0 of so many processes saves, once all are seen to save the same.
std::vector<Tensor> gradients_of_processes(int size, const char* dtype) {
  RankProcesses::Variables variables = variables_of(false, 60'000);
  variables["WICK_TEST_DTYPE"] = dtype;
  RankProcesses ranks(size, "save_gradients", variables);
  std::vector<Tensor> gradients;
  for (int r = 0; r < size; ++r) {
    EXPECT_EQ(ranks.wait(r), 0) << ranks.words(r);
    std::vector<Tensor> own;
    for (const auto& [name, x] : load_safetensors(ranks.file_of(r, "gradients"))) own.push_back(x);
    if (r == 0) gradients = own;
    expect_same_bits(own, gradients);
  }
  return gradients;
}

TEST(Processes, HaveTheGradientsOfTheWholeBatch) {
  for (const char* dtype : {"float64", "float32"}) {
    const std::vector<Tensor> alone = gradients_of_processes(1, dtype);
    EXPECT_EQ(alone.size(), make_model("resnet20")->parameters().size());
    for (const int size : {2, 4}) {
      const std::vector<Tensor> gradients = gradients_of_processes(size, dtype);
      expect_close(gradients, alone, dtype == std::string("float64") ? 1e-10 : 2e-5);
      if (size == 2) expect_same_bits(gradients_of_processes(size, dtype), gradients);
    }
  }
}

// Three ranks amid collectives, of which one gets a signal; the others must end with `reason`, and
// tell of it in their flight records.
class Signalled {
 public:
  static constexpr int kSize = 3;
  Signalled(int victim, bool by_tcp, int timeout_ms, const char* body = "reduce_for_ever")
      : victim_(victim), ranks_(kSize, body, variables(by_tcp, timeout_ms)) {}

  void wait_until_ready() const { ASSERT_TRUE(ranks_.wait_until_ready()) << ranks_.words(0); }
  void send(int signal) const { ranks_.send_signal(victim_, signal); }
  void expect_others_tell(const std::string& reason) {
    for (int r = 0; r < kSize; ++r) {
      if (r == victim_) continue;
      EXPECT_EQ(ranks_.wait(r), 3);
      EXPECT_NE(ranks_.words(r).find(reason), std::string::npos) << ranks_.words(r);
      EXPECT_TRUE(std::filesystem::exists(flight_.path(concat("flight-", r, ".json"))));
    }
  }

 private:
  RankProcesses::Variables variables(bool by_tcp, int timeout_ms) const {
    RankProcesses::Variables variables = variables_of(by_tcp, timeout_ms);
    variables["WICK_FLIGHT_DIR"] = flight_.path();
    return variables;
  }

  int victim_;
  wick::testing::TemporaryFolder flight_;
  RankProcesses ranks_;
};

// WICK_KILL_ROUNDS=200 for more than CI's four, and how long the last survivor took at most.
TEST(Processes, NameWhoWasKilled) {
  const char* rounds = std::getenv("WICK_KILL_ROUNDS");
  double longest = 0;
  for (int i = 0; i < (rounds == nullptr ? 4 : std::atoi(rounds)); ++i) {
    const int victim = i % 2;
    Signalled ranks(victim, i / 2 % 2 == 1, 60'000);
    ranks.wait_until_ready();
    std::this_thread::sleep_for(std::chrono::microseconds(i * 7919 % 30'011));
    const auto begin = std::chrono::steady_clock::now();
    ranks.send(SIGKILL);
    ranks.expect_others_tell(concat("rank ", victim, " is gone"));
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    longest = std::max(longest, passed.count());
  }
  if (rounds != nullptr) std::printf("the last survivor ended after %.3f s at most\n", longest);
}

TEST(Processes, NameWhoWasStopped) {
  const int timeout_ms = wick::testing::kSanitized ? 4000 : 1000;
  Signalled first(1, false, timeout_ms), second(0, false, timeout_ms), third(1, true, timeout_ms);
  for (const Signalled* ranks : {&first, &second, &third}) ranks->wait_until_ready();
  first.send(SIGSTOP);
  second.send(SIGSTOP);
  third.send(SIGSTOP);
  first.expect_others_tell("rank 1 did not come in time, nor answer");
  second.expect_others_tell(concat("rank 0 did not come within ", timeout_ms, " ms"));
  third.expect_others_tell("rank 1 did not come in time, nor answer");
}

// The GPUs of the others wait in NCCL for the one that is gone.
TEST(Processes, NameWhoWasKilledOrStoppedAmidNccl) {
  if (!cuda_is_available() || !device_properties(cuda_device(0)).simulated) {
    GTEST_SKIP() << "needs three GPUs, as simulated ones are";
  }
  const int timeout_ms = wick::testing::kSanitized ? 4000 : 1000;
  Signalled killed(1, false, 60'000, "reduce_on_gpu_for_ever");
  Signalled stopped(2, false, timeout_ms, "reduce_on_gpu_for_ever");
  killed.wait_until_ready();
  stopped.wait_until_ready();
  killed.send(SIGKILL);
  stopped.send(SIGSTOP);
  killed.expect_others_tell("rank 1 is gone");
  stopped.expect_others_tell("rank 2 did not come in time, nor answer");
}

}  // namespace
}  // namespace wick::dist
