#include "wick/dist/process_group.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include <nlohmann/json.hpp>

#include "wick/core/autograd.h"
#include "wick/core/base/threads.h"
#include "wick/core/core.h"
#include "wick/dist/all_reduce.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::dist {
namespace {

using wick::testing::bit_equal;
using wick::testing::error_of;
using wick::testing::kGpu;

// Before anything asks for a device.
[[maybe_unused]] const int kDevices = ::setenv("WICK_SIM_DEVICES", "8", 0);

// Where a rank's tensors lie: the CPU, or GPUs in turn.
std::vector<bool> places() {
  return cuda_is_available() ? std::vector<bool>{false, true} : std::vector<bool>{false};
}
Device device_of(bool on_gpu, int rank) {
  return on_gpu ? cuda_device(rank % cuda_device_count()) : kCpu;
}

// What `rank` gives in these tests: the same in every run, different on every rank.
Tensor input_of(int rank, const Shape& shape, Dtype dtype = kFloat32) {
  Generator generator(static_cast<uint64_t>(100 + rank));
  return randn(shape, kFloat64, kCpu, &generator).mul(4).to(dtype);
}

TEST(ProcessGroup, ReducesEveryDtypeInTheOrderOfRanks) {
  for (const bool on_gpu : places()) {
    for (const int size : {1, 2, 3, 8}) {
      for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16, kFloat16, kInt64, kInt32, kUint8}) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct,
                                  ReduceOp::kMin, ReduceOp::kMax}) {
          if (op == ReduceOp::kAverage && !is_floating(dtype)) continue;
          const Shape shape = {7, 3};
          const bool is_16_bit = dtype == kFloat16 || dtype == kBFloat16;
          std::vector<Tensor> given;
          for (int r = 0; r < size; ++r) {
            given.push_back(input_of(r, shape, dtype).to(is_16_bit ? kFloat32 : dtype));
          }
          const Tensor expected = reduce_by_hand(given, op).to(dtype);
          on_ranks(size, [&](const Group& group) {
            const Tensor x =
                input_of(group->rank(), shape, dtype).to(device_of(on_gpu, group->rank()));
            group->all_reduce(x, op).wait();
            EXPECT_TRUE(bit_equal(x.cpu(), expected))
                << to_string(op) << " of " << size << " ranks in " << dtype;
          });
        }
      }
    }
  }
}

TEST(ProcessGroup, ReducesImagesAndTensorsOfFewElements) {
  for (const bool on_gpu : places()) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{2}, Shape{0, 3}, Shape{2, 3, 5, 4}}) {
      on_ranks(3, [&](const Group& group) {
        Tensor x = input_of(group->rank(), shape).to(device_of(on_gpu, group->rank()));
        if (shape.rank() == 4) x = x.contiguous(MemoryFormat::kChannelsLast);
        group->all_reduce(x).wait();
        const Tensor expected = input_of(0, shape) + input_of(1, shape) + input_of(2, shape);
        EXPECT_TRUE(bit_equal(x.cpu(), expected)) << shape;
      });
    }
  }
}

TEST(ProcessGroup, BroadcastsGathersScattersAndSends) {
  for (const bool on_gpu : places()) {
    on_ranks(4, [&](const Group& group) {
      const int rank = group->rank();
      const Device device = device_of(on_gpu, rank);
      const Tensor x = input_of(rank, {5}).to(device);
      group->broadcast(x, 2).wait();
      EXPECT_TRUE(bit_equal(x.cpu(), input_of(2, {5})));

      const Tensor all = zeros({4, 2, 3}, kFloat32, device);
      group->all_gather(input_of(rank, {2, 3}).to(device), all).wait();
      for (int r = 0; r < 4; ++r) EXPECT_TRUE(bit_equal(all[r].cpu(), input_of(r, {2, 3})));

      const Tensor mine = zeros({3}, kFloat32, device);
      group->reduce_scatter(input_of(rank, {4, 3}).to(device), mine).wait();
      Tensor expected = input_of(0, {4, 3})[rank].clone();
      for (int r = 1; r < 4; ++r) expected += input_of(r, {4, 3})[rank];
      EXPECT_TRUE(bit_equal(mine.cpu(), expected));

      // Around the ring, in both directions at once.
      const Tensor left = zeros({6}, kFloat32, device);
      const Tensor right = input_of(rank, {6}).to(device);
      const int next = (rank + 1) % 4, before = (rank + 3) % 4;
      if (rank % 2 == 0) {
        group->send(right, next);
        group->recv(left, before).wait();
      } else {
        group->recv(left, before);
        group->send(right, next).wait();
      }
      group->barrier().wait();
      EXPECT_TRUE(bit_equal(left.cpu(), input_of(before, {6})));
    });
  }
}

// Once waited for, although whoever receives it may not have come to it. Not on the default
// streams, which copies between GPUs keep in order as it is.
TEST(ProcessGroup, WhatIsSentMayBeOverwritten) {
  for (const bool on_gpu : places()) {
    on_ranks(2, [&](const Group& group) {
      const Device device = device_of(on_gpu, group->rank());
      std::optional<StreamGuard> own_stream;
      if (on_gpu) own_stream.emplace(stream_from_pool(device));
      const Tensor x = zeros({1000}, kFloat32, device);
      std::vector<Tensor> received;
      for (int i = 0; i < 4; ++i) {
        if (group->rank() == 0) {
          x.fill_(i);
          group->send(x, 1).wait();
        } else {
          received.push_back(empty({1000}, kFloat32, device));
          group->recv(received.back(), 0).wait();
        }
      }
      if (group->rank() == 0) synchronize(device);  // all is overwritten now
      group->barrier().wait();
      for (size_t i = 0; i < received.size(); ++i) {
        EXPECT_TRUE(bit_equal(received[i].cpu(), full({1000}, static_cast<double>(i))));
      }
    });
  }
}

TEST(ProcessGroup, SendsAndReceivesInBatches) {
  for (const bool on_gpu : places()) {
    on_ranks(3, [&](const Group& group) {
      const int rank = group->rank(), before = (rank + 2) % 3;
      const Device device = device_of(on_gpu, rank);
      const std::vector<Tensor> received = {zeros({6}, kFloat32, device),
                                            zeros({2, 3}, kFloat32, device)};
      pass_around_at_once(
          group, {input_of(rank, {6}).to(device), input_of(rank + 3, {2, 3}).to(device)}, received);
      EXPECT_TRUE(bit_equal(received[0].cpu(), input_of(before, {6})));
      EXPECT_TRUE(bit_equal(received[1].cpu(), input_of(before + 3, {2, 3})));
      const FlightRecord record = group->flight_records().back();
      EXPECT_EQ(record.bytes, 4 * 6 * 4);
      EXPECT_EQ(record.description,
                concat("batch (send (to rank ", (rank + 1) % 3, ", float32 [6]), send (to rank ",
                       (rank + 1) % 3, ", float32 [2, 3]), recv (from rank ", before,
                       ", float32 [6]), recv (from rank ", before, ", float32 [2, 3]))"));
    });
  }
}

// Calls one after the other: that each rank's send comes first is the caller's mistake.
TEST(ProcessGroup, TellsOfSendsThatWaitForEachOther) {
  on_ranks(2,
           [](const Group& group) {
             const Tensor x = ones({4});
             group->send(x, 1 - group->rank());
             const Work received = group->recv(x, 1 - group->rank());
             EXPECT_NE(error_of([&] { received.wait(); }).find("send (to rank "),
                       std::string::npos);
           },
           {.timeout = std::chrono::milliseconds(200)});
}

TEST(ProcessGroup, KeepsTheOrderOfCallsAndOfTheStream) {
  for (const bool on_gpu : places()) {
    on_ranks(2, [&](const Group& group) {
      const Device device = device_of(on_gpu, group->rank());
      Tensor x = full({1000}, group->rank() + 1, kFloat32, device);
      for (int i = 0; i < 20; ++i) {
        const Tensor y = x * 2;  // queued before: the collective has to wait for it
        const Work first = group->all_reduce(y), second = group->all_reduce(y, ReduceOp::kAverage);
        second.wait();
        EXPECT_TRUE(first.is_done());
        x = y / 2;
      }
      // 1 and 2 become 3 each, which doubles in every round from then on.
      EXPECT_EQ(x.cpu().to_vector<float>(),
                std::vector<float>(1000, 3 * static_cast<float>(1 << 19)));
    });
  }
}

TEST(ProcessGroup, TellsWhoDidNotCome) {
  const ProcessGroupOptions options{.timeout = std::chrono::milliseconds(100)};
  const std::vector<Group> groups = make_local_groups(3, options);
  const Tensor x = ones({4});
  const Work first = groups[0]->all_reduce(x);
  EXPECT_EQ(error_of([&] { first.wait(); }),
            "all_reduce #1 (sum, float32 [4]): ranks 1, 2 did not come within 100 ms");
  const Work late = groups[1]->all_reduce(ones({4}));
  EXPECT_EQ(error_of([&] { late.wait(); }),
            "all_reduce #1 (sum, float32 [4]): rank 0 failed: all_reduce #1 (sum, float32 [4]): "
            "ranks 1, 2 did not come within 100 ms");
  const Work after = groups[0]->barrier();
  EXPECT_EQ(error_of([&] { after.wait(); }).substr(0, 32), "barrier #2: the group has failed");
}

TEST(ProcessGroup, TellsWhoIsGone) {
  std::vector<Group> groups = make_local_groups(2);
  const Work work = groups[0]->barrier();
  groups[1].reset();
  EXPECT_EQ(error_of([&] { work.wait(); }), "barrier #1: rank 1 left the group");
}

TEST(ProcessGroup, TellsWhatRanksAskForWhereItDiffers) {
  const std::vector<Group> groups = make_local_groups(2);
  const Work sum = groups[0]->all_reduce(ones({4})), other = groups[1]->all_reduce(ones({5}));
  EXPECT_EQ(
      error_of([&] { sum.wait(); }),
      "ranks ask for different collectives: rank 0 for all_reduce #1 (sum, float32 [4]), rank 1 "
      "for all_reduce #1 (sum, float32 [5])");
  EXPECT_NE(error_of([&] { other.wait(); }), "no error");
}

TEST(ProcessGroup, RejectsWhatDoesNotFit) {
  const Group group = make_local_groups(1)[0];
  EXPECT_EQ(error_of([&] {
              group->all_reduce(ones({4, 4}).slice(1, 0, 4, 2));
            }),
            "all_reduce: the tensor is not dense: got shape [4, 2] with strides [4, 2]");
  EXPECT_EQ(error_of([&] { group->all_reduce(ones({4}, kInt64), ReduceOp::kAverage); }),
            "all_reduce: only floating dtypes have an average: got int64");
  EXPECT_EQ(error_of([&] { group->broadcast(ones({4}), 1); }),
            "broadcast: no such root: got 1, expected less than 1");
  EXPECT_EQ(error_of([&] {
              group->all_gather(ones({4}), ones({2, 4}));
            }),
            "all_gather: shapes do not fit: got [2, 4] and [4], expected [1, 4] for 1 ranks");
  EXPECT_EQ(error_of([&] { group->send(ones({4}), 0); }),
            "send: no such rank to send to: got 0, expected another one of 1");
  EXPECT_EQ(error_of([&] { group->batch({}); }),
            "batch: there are no transfers: expected at least one");
  EXPECT_EQ(error_of([&] {
              group->batch({{CollectiveKind::kBarrier, ones({4}), 0}});
            }),
            "batch: not a send or a receive: got barrier");
  EXPECT_EQ(error_of([&] { make_local_groups(0); }),
            "make_local_groups: size must be positive: got 0");
}

// ... and goes on.
TEST(ProcessGroup, RejectsToBeCaptured) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const std::vector<Group> groups = make_local_groups(2);
  const Tensor x = full({4}, 1, kFloat32, kGpu), y = full({4}, 2, kFloat32, kGpu);
  EXPECT_EQ(error_of([&] { CudaGraph graph(kGpu, [&] { groups[0]->all_reduce(x); }); }),
            "cuda_graph: captured work must not exchange tensors between ranks: none of it has run "
            "on cuda:0 yet");
  const Work first = groups[0]->all_reduce(x), second = groups[1]->all_reduce(y);
  first.wait();
  second.wait();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 3));
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(4, 3));
}

TEST(ProcessGroup, RemembersItsLastCollectives) {
  on_ranks(2, [&](const Group& group) {
    for (int i = 0; i < 300; ++i) group->all_reduce(ones({3}));
    group->barrier().wait();
    const std::vector<FlightRecord> records = group->flight_records();
    ASSERT_EQ(records.size(), 256);
    EXPECT_EQ(records.back().description, "barrier #301");
    EXPECT_EQ(records[0].sequence, 46);
    EXPECT_EQ(records[0].bytes, 12);
    for (const FlightRecord& r : records) {
      EXPECT_EQ(r.state, FlightRecord::State::kDone);
      EXPECT_LE(r.queued_us, r.begin_us);
      EXPECT_LE(r.begin_us, r.end_us);
    }
    const auto json = nlohmann::json::parse(group->flight_json());
    EXPECT_EQ(json["rank"], group->rank());
    EXPECT_EQ(json["collectives"][0]["description"], "all_reduce #46 (sum, float32 [3])");
  });
}

TEST(AllReduceSum, HasTheSumOfTheGradients) {
  for (const bool on_gpu : places()) {
    on_ranks(3, [&](const Group& group) {
      const int rank = group->rank();
      const Device device = device_of(on_gpu, rank);
      const Tensor x = input_of(rank, {4}).to(device);
      x.set_requires_grad();
      const Tensor y = all_reduce_sum(x, group);
      EXPECT_TRUE(
          bit_equal(y.detach().cpu(), input_of(0, {4}) + input_of(1, {4}) + input_of(2, {4})));
      (y * (rank + 1)).sum().backward();
      EXPECT_EQ(x.grad().cpu().to_vector<float>(), std::vector<float>(4, 6));
    });
  }
}

}  // namespace
}  // namespace wick::dist
