// Groups over the transports of processes. Their ranks are threads here, which meet as processes
// do; what it takes processes to show is in processes_test.cpp.
#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "wick/core/core.h"
#include "wick/dist/data_parallel.h"
#include "wick/dist/detail/coordinator.h"
#include "wick/dist/processes.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/nn.h"
#include "wick/tests/dist/peers.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/sanitized.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::dist {
namespace {

using std::chrono::milliseconds;
using wick::testing::bit_equal;
using wick::testing::error_of;
using wick::testing::TemporaryFolder;

// By shared memory, and by TCP.
constexpr bool kTransports[] = {true, false};

// Of what is to time out: longer than what is not may take.
constexpr milliseconds kShort{wick::testing::kSanitized ? 2000 : 400};

void on_peers(int size, bool shared_memory, const std::function<void(const Group&)>& body) {
  const auto errors = errors_on_peers(
      size, body, {.timeout = std::chrono::minutes(2), .shared_memory = shared_memory});
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

Tensor given_by(int rank, const Shape& shape, Dtype dtype = kFloat32) {
  Generator generator(static_cast<uint64_t>(300 + rank));
  return randn(shape, kFloat64, kCpu, &generator).mul(4).to(dtype);
}

struct Case {
  Shape shape;
  Dtype dtype = kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// Every dtype and reduction, and sizes about those of messages, at which the way changes.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16, kFloat16, kInt64, kInt32, kUint8}) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
      if (op == ReduceOp::kAverage && !is_floating(dtype)) continue;
      all.push_back({{7, 3}, dtype, op});
      all.push_back({{5000}, dtype, op});
    }
  }
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{2, 3, 5, 4}, Shape{2048},
                             Shape{2049}, Shape{65521}, Shape{400'003}}) {
    all.push_back({shape});
  }
  return all;
}

Tensor prepared(const Case& c, int rank) {
  const Tensor x = given_by(rank, c.shape, c.dtype);
  return c.shape.rank() == 4 ? x.contiguous(MemoryFormat::kChannelsLast) : x;
}

// By a group of threads: what every other must have to the bit.
std::vector<Tensor> expected_of(int size, const std::vector<Case>& all) {
  std::vector<Tensor> results;
  on_ranks(size, [&](const Group& group) {
    for (const Case& c : all) {
      const Tensor x = prepared(c, group->rank());
      group->all_reduce(x, c.op).wait();
      if (group->rank() == 0) results.push_back(x);
    }
  });
  return results;
}

TEST(PeerGroup, ReducesToTheBitsOfALocalGroup) {
  const std::vector<Case> all = cases();
  for (const int size : {2, 3}) {
    const std::vector<Tensor> expected = expected_of(size, all);
    for (const bool shared_memory : kTransports) {
      on_peers(size, shared_memory, [&](const Group& group) {
        for (size_t i = 0; i < all.size(); ++i) {
          const Tensor x = prepared(all[i], group->rank());
          group->all_reduce(x, all[i].op).wait();
          EXPECT_TRUE(bit_equal(x, expected[i]))
              << to_string(all[i].op) << " of " << size << " ranks: " << all[i].dtype << " "
              << all[i].shape << (shared_memory ? " by shared memory" : " by TCP");
        }
      });
    }
  }
}

TEST(PeerGroup, BroadcastsGathersScattersAndSends) {
  for (const bool shared_memory : kTransports) {
    for (const int64_t n : {5, 70'001}) {
      on_peers(4, shared_memory, [&](const Group& group) {
        const int rank = group->rank();
        const Tensor x = given_by(rank, {n});
        group->broadcast(x, 2).wait();
        EXPECT_TRUE(bit_equal(x, given_by(2, {n})));

        const Tensor all = zeros({4, n});
        group->all_gather(given_by(rank, {n}), all).wait();
        for (int r = 0; r < 4; ++r) EXPECT_TRUE(bit_equal(all[r], given_by(r, {n})));

        const Tensor mine = zeros({n});
        group->reduce_scatter(given_by(rank, {4, n}), mine).wait();
        Tensor expected = given_by(0, {4, n})[rank].clone();
        for (int r = 1; r < 4; ++r) expected += given_by(r, {4, n})[rank];
        EXPECT_TRUE(bit_equal(mine, expected));

        const Tensor left = zeros({n}), right = given_by(rank, {n});
        pass_around(group, right, left);
        group->barrier().wait();
        EXPECT_TRUE(bit_equal(left, given_by((rank + 3) % 4, {n})));
      });
    }
  }
}

// Also where they are more, and larger, than what a link holds.
TEST(PeerGroup, SendsAndReceivesInBatches) {
  for (const bool shared_memory : kTransports) {
    on_peers(3, shared_memory, [&](const Group& group) {
      const int rank = group->rank();
      const std::vector<int64_t> sizes = {3'000'001, 0, 5, 1, 2, 3, 4, 70'001};
      std::vector<Tensor> mine, received;
      for (const int64_t n : sizes) {
        mine.push_back(given_by(rank, {n}));
        received.push_back(zeros({n}));
      }
      pass_around_at_once(group, mine, received);
      for (size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_TRUE(bit_equal(received[i], given_by((rank + 2) % 3, {sizes[i]})));
      }
    });
  }
}

TEST(PeerGroup, StagesTensorsOfGpus) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  on_peers(2, true, [](const Group& group) {
    const int rank = group->rank();
    const Device device = cuda_device(rank % cuda_device_count());
    Tensor x = full({3000}, rank + 1, kFloat32, device);
    for (int i = 0; i < 5; ++i) {
      x = x * 2;  // queued before: the collective has to wait for it
      group->all_reduce(x).wait();
    }
    EXPECT_EQ(x.cpu().to_vector<float>(), std::vector<float>(3000, 3 * 32 * 16));
    const Tensor all = zeros({2, 4}, kFloat32, device), mine = zeros({4}, kFloat32, device);
    group->all_gather(full({4}, rank, kFloat32, device), all).wait();
    group->reduce_scatter(all, mine).wait();
    EXPECT_EQ(mine.cpu().to_vector<float>(), std::vector<float>(4, static_cast<float>(2 * rank)));
    if (rank == 0) group->send(x, 1).wait();
    const Tensor y = zeros({3000}, kFloat32, device);
    if (rank == 1) group->recv(y, 0).wait();
    group->broadcast(y, 1).wait();
    EXPECT_TRUE(bit_equal(y.cpu(), x.cpu()));
  });
}

std::vector<std::shared_ptr<nn::Module>> two_equal_models() {
  std::vector<std::shared_ptr<nn::Module>> models;
  for (int r = 0; r < 2; ++r) {
    manual_seed(5);
    models.push_back(nn::find_model("lenet").make({3, 16, 16}, 10));
  }
  return models;
}

std::vector<Tensor> trained_gradients(const Group& group, const std::shared_ptr<nn::Module>& net) {
  DistributedDataParallel model(net, group);
  Generator generator(static_cast<uint64_t>(group->rank()));
  const Tensor images = randn({2, 3, 16, 16}, kFloat32, kCpu, &generator);
  const Tensor labels = randint(0, 10, {2}, kInt64, kCpu, &generator);
  std::vector<Tensor> gradients;
  for (int i = 0; i < 2; ++i) {
    model.zero_grad();
    cross_entropy(model(images), labels).backward();
  }
  for (const Tensor& p : net->parameters()) gradients.push_back(p.grad().clone());
  return gradients;
}

TEST(PeerGroup, TrainsToTheBitsOfALocalGroup) {
  std::vector<Tensor> expected;
  auto models = two_equal_models();
  on_ranks(2, [&](const Group& group) {
    const auto rank = static_cast<size_t>(group->rank());
    const std::vector<Tensor> gradients = trained_gradients(group, models[rank]);
    if (group->rank() == 0) expected = gradients;
  });
  for (const bool shared_memory : kTransports) {
    models = two_equal_models();
    on_peers(2, shared_memory, [&](const Group& group) {
      const auto rank = static_cast<size_t>(group->rank());
      const std::vector<Tensor> gradients = trained_gradients(group, models[rank]);
      ASSERT_EQ(gradients.size(), expected.size());
      for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_TRUE(bit_equal(gradients[i], expected[i])) << "parameter " << i;
      }
    });
  }
}

TEST(PeerGroup, NamesWhatRanksAskForWhereItDiffers) {
  for (const bool shared_memory : kTransports) {
    const auto errors = errors_on_peers(2,
                                        [](const Group& group) {
                                          group->barrier().wait();
                                          if (group->rank() == 0) {
                                            group->all_reduce(ones({4})).wait();
                                          } else {
                                            group->all_reduce(ones({4}, kFloat64)).wait();
                                          }
                                        },
                                        {.shared_memory = shared_memory});
    for (const std::string& error : errors) {
      EXPECT_NE(error.find("ranks ask for different collectives"), std::string::npos) << error;
      EXPECT_NE(error.find("all_reduce #2 (sum, float32 [4])"), std::string::npos) << error;
      EXPECT_NE(error.find("all_reduce #2 (sum, float64 [4])"), std::string::npos) << error;
    }
  }
}

TEST(PeerGroup, NamesWhoDidNotComeAndLeavesFlightRecords) {
  for (const bool shared_memory : kTransports) {
    const TemporaryFolder folder;
    const ProcessGroupOptions options{
        .timeout = kShort, .flight_folder = folder.path("flight"), .shared_memory = shared_memory};
    const auto errors = errors_on_peers(
        3,
        [](const Group& group) {
          group->barrier().wait();
          // Rank 1 is busy elsewhere; it hears of it all the same.
          if (group->rank() == 1) std::this_thread::sleep_for(kShort + milliseconds(500));
          group->all_reduce(ones({4})).wait();
        },
        options);
    for (const std::string& error : errors) {
      EXPECT_NE(error.find("rank 1 did not come in time"), std::string::npos) << error;
    }
    for (int r = 0; r < 3; ++r) {
      std::ifstream file(folder.path(concat("flight/flight-", r, ".json")));
      const auto json = nlohmann::json::parse(file);
      EXPECT_EQ(json["rank"], r);
      EXPECT_NE(json["failure"].get<std::string>().find("rank 1"), std::string::npos);
      EXPECT_EQ(json["collectives"][0]["state"], "done");
    }
  }
}

TEST(PeerGroup, NamesWhoLeft) {
  for (const bool shared_memory : kTransports) {
    const auto errors =
        errors_on_peers(3,
                        [](const Group& group) {
                          group->barrier().wait();
                          if (group->rank() == 2) return;
                          group->all_reduce(ones({4})).wait();
                        },
                        {.timeout = milliseconds(20'000), .shared_memory = shared_memory});
    for (int r = 0; r < 2; ++r) {
      const std::string& error = errors[static_cast<size_t>(r)];
      EXPECT_NE(error.find("rank 2 left the group"), std::string::npos) << error;
    }
    EXPECT_EQ(errors[2], "");
  }
}

TEST(PeerGroup, FailsEverywhereWhenOneRankAborts) {
  const auto errors = errors_on_peers(2,
                                      [](const Group& group) {
                                        group->barrier().wait();
                                        if (group->rank() == 1) group->abort("out of patience");
                                        group->all_reduce(ones({4})).wait();
                                      },
                                      {});
  EXPECT_NE(errors[0].find("rank 1 failed: out of patience"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("out of patience"), std::string::npos) << errors[1];
}

// --- Coming together ----------------------------------------------------------------------------

// A port that was free a moment ago.
int free_port() { return listen_at("127.0.0.1", 0).port(); }

std::string error_of_joining(const LaunchEnv& env, milliseconds timeout = milliseconds(20'000)) {
  return error_of([&] { init_process_group(env, {.timeout = timeout}); });
}

// What ranks say that join at once.
std::vector<std::string> errors_of_joining(const std::vector<LaunchEnv>& envs,
                                           milliseconds timeout = milliseconds(20'000)) {
  std::vector<std::string> errors(envs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < envs.size(); ++i) {
    threads.emplace_back([&, i] { errors[i] = error_of_joining(envs[i], timeout); });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

LaunchEnv at_port(int rank, int size, int port) {
  LaunchEnv env;
  env.rank = rank;
  env.world_size = size;
  env.master_port = port;
  return env;
}

TEST(Rendezvous, NamesWhoDoesNotArrive) {
  const int port = free_port();
  const auto errors = errors_of_joining({at_port(0, 4, port), at_port(2, 4, port)}, kShort);
  for (const std::string& error : errors) {
    EXPECT_EQ(error, concat("process group: ranks 1, 3 of 4 did not come to 127.0.0.1:", port,
                            " within ", kShort.count(), " ms"));
  }
  const std::string alone = error_of_joining(at_port(1, 2, port), milliseconds(100));
  EXPECT_EQ(alone, concat("process group: rank 1 cannot reach rank 0 at 127.0.0.1:", port,
                          " within 100 ms: Connection refused"));
  const TemporaryFolder folder;
  EXPECT_EQ(error_of_joining(env_of(1, 2, folder), milliseconds(100)),
            concat("process group: rank 1 of 2 found no rendezvous file of rank 0 at ",
                   folder.path("rendezvous"), " within 100 ms"));
}

TEST(Rendezvous, SaysThatAPortIsInUse) {
  const Socket other = listen_at("127.0.0.1", 0);
  EXPECT_EQ(error_of_joining(at_port(0, 2, other.port())),
            concat("process group: rank 0 cannot listen at 127.0.0.1:", other.port(),
                   ": Address already in use"));
}

TEST(Rendezvous, RefusesRanksThatDisagree) {
  int port = free_port();
  std::vector<std::string> errors = errors_of_joining({at_port(0, 3, port), at_port(1, 2, port)});
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("ranks disagree about their number: rank 0 is one of 3, rank 1 one of 2"),
              std::string::npos)
        << error;
  }
  port = free_port();
  errors = errors_of_joining({at_port(0, 3, port), at_port(1, 3, port), at_port(1, 3, port)});
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("two processes are rank 1 of 3"), std::string::npos) << error;
  }
}

TEST(Rendezvous, TurnsStrangersAwayAndGoesOn) {
  LaunchEnv first = at_port(0, 2, 0);
  Socket listener = listen_at("127.0.0.1", 0);
  first.master_port = listener.port();
  first.job_token = "right";
  Coordinator coordinator(std::move(listener), first, milliseconds(20'000));
  // One who says nothing, one of another kind, one who would send without end.
  std::string reason;
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  const Socket silent = connect_to("127.0.0.1", first.master_port, deadline, reason);
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\1')}) {
    const Socket stranger = connect_to("127.0.0.1", first.master_port, deadline, reason);
    ASSERT_TRUE(stranger.is_open()) << reason;
    send(stranger.descriptor(), words.data(), words.size(), MSG_NOSIGNAL);
    ASSERT_TRUE(stranger.wait(POLLIN, deadline));
    char byte = 0;
    EXPECT_LE(recv(stranger.descriptor(), &byte, 1, 0), 0);  // closed
  }
  LaunchEnv other = at_port(1, 2, first.master_port);
  other.job_token = "wrong";
  EXPECT_EQ(error_of_joining(other),
            "process group: rank 1 was turned away: the job token (WICK_JOB_TOKEN) differs from "
            "rank 0's: is another job at this address?");
  // Another version of this program.
  ControlChannel old(connect_to("127.0.0.1", first.master_port, deadline, reason));
  std::string hello = Hello{1, 2, "right"}.text();
  hello[sizeof "wick process group"] = '\7';
  old.put(ControlKind::kHello, hello);
  ASSERT_TRUE(old.flush());
  ASSERT_TRUE(old.socket().wait(POLLIN, deadline));
  old.fill(1000);
  const auto answer = old.next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->text,
            "versions differ: rank 0 speaks 2, this rank 7: all ranks must run the "
            "same program");
  // Those of the job come together all the same.
  std::vector<std::unique_ptr<ControlChannel>> ranks;
  for (uint32_t r = 0; r < 2; ++r) {
    ranks.push_back(std::make_unique<ControlChannel>(
        connect_to("127.0.0.1", first.master_port, deadline, reason)));
    ranks.back()->put(ControlKind::kHello, Hello{r, 2, "right"}.text());
    ASSERT_TRUE(ranks.back()->flush());
  }
  for (const auto& rank : ranks) {
    ASSERT_TRUE(rank->socket().wait(POLLIN, deadline));
    rank->fill(1000);
    const auto welcome = rank->next();
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->kind, ControlKind::kWelcome);
  }
}

TEST(Rendezvous, IgnoresAFileOfAnotherRun) {
  const TemporaryFolder folder;
  const std::string path = folder.path("rendezvous");
  // Rank 0 of another job still waits where the old file says.
  const TemporaryFolder elsewhere;
  LaunchEnv other = env_of(0, 2, elsewhere);
  std::thread waiting([&] { error_of_joining(other, milliseconds(500)); });
  while (!std::filesystem::exists(elsewhere.path("rendezvous"))) std::this_thread::yield();
  std::ifstream source(elsewhere.path("rendezvous"));
  std::string text((std::istreambuf_iterator<char>(source)), {});
  const size_t token = text.rfind('\n', text.size() - 2) + 1;
  text.replace(token, text.size() - token - 1, "token of another run");
  std::ofstream(path) << text;
  std::string late;
  std::thread rank1([&] { late = error_of_joining(env_of(1, 2, folder)); });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(error_of_joining(env_of(0, 2, folder)), "no error");
  rank1.join();
  waiting.join();
  EXPECT_EQ(late, "no error");
}

TEST(Rendezvous, LeavesAnOldFileThatNamesASilentPort) {
  const TemporaryFolder folder;
  const std::string path = folder.path("rendezvous");
  const Socket silent = listen_at("127.0.0.1", 0);  // takes connections and says nothing
  std::ofstream(path) << "wick rendezvous\n127.0.0.1\n" << silent.port() << "\nold token\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  std::string late;
  std::thread rank1([&] { late = error_of_joining(env_of(1, 2, folder)); });
  ASSERT_TRUE(silent.wait(POLLIN, Clock::now() + std::chrono::seconds(20)));  // it fell for it
  EXPECT_EQ(error_of_joining(env_of(0, 2, folder)), "no error");
  rank1.join();
  EXPECT_EQ(late, "no error");
}

TEST(Rendezvous, TellsThatAHostHasNoAddress) {
  LaunchEnv env = at_port(1, 2, 1);
  env.master_addr = "no-such-host.invalid";
  const std::string error = error_of_joining(env, milliseconds(200));
  EXPECT_EQ(error.find("process group: rank 1 cannot reach rank 0 at no-such-host.invalid:1 within "
                       "200 ms: "),
            0)
      << error;
  env.rank = 0;
  const std::string own = error_of_joining(env, milliseconds(200));
  EXPECT_EQ(own.find("process group: rank 0 cannot listen at no-such-host.invalid:1: "), 0) << own;
}

TEST(PeerGroup, LeavesTheCallersSignalsAlone) {
  on_peers(2, false, [](const Group& group) {
    group->all_reduce(ones({4})).wait();
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0);
  });
}

}  // namespace
}  // namespace wick::dist
