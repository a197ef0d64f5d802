// Messages between GPUs by NCCL, where a sender's stream stands still until its receiver has come.
#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/tests/dist/peers.h"
#include "wick/tests/harness/host_array.h"

namespace wick::dist {
namespace {

using std::chrono::milliseconds;
using wick::testing::bit_equal;

// What each of so many ranks threw, or "".
std::vector<std::string> errors_on_gpus(int size, const std::function<void(const Group&)>& body,
                                        milliseconds timeout) {
  return errors_on_unequal_peers(size, body, [&](int rank) {
    return ProcessGroupOptions{
        .timeout = timeout, .backend = Backend::kNccl, .device = cuda_device(rank)};
  });
}

Tensor numbers_of(int rank, const Shape& shape) {
  Generator generator(static_cast<uint64_t>(900 + rank));
  return randn(shape, kFloat32, kCpu, &generator);
}

TEST(NcclBatch, SendsAndReceivesAtOnce) {
  if (!has_nccl(3)) GTEST_SKIP() << "no NCCL, or fewer GPUs than 3";
  const auto errors = errors_on_gpus(
      3,
      [](const Group& group) {
        const int rank = group->rank(), before = (rank + 2) % 3;
        const Device gpu = cuda_device(rank);
        const std::vector<Tensor> mine = {numbers_of(rank, {6}).to(gpu), zeros({0}, kFloat32, gpu),
                                          numbers_of(rank + 3, {2, 3}).to(gpu)};
        const std::vector<Tensor> received = {zeros({6}, kFloat32, gpu), zeros({0}, kFloat32, gpu),
                                              zeros({2, 3}, kFloat32, gpu)};
        pass_around_at_once(group, mine, received);
        EXPECT_TRUE(bit_equal(received[0].cpu(), numbers_of(before, {6})));
        EXPECT_TRUE(bit_equal(received[2].cpu(), numbers_of(before + 3, {2, 3})));
        // Also between two ranks alone, which the third takes no part in.
        if (rank != 2) {
          const Tensor got = zeros({4}, kFloat32, gpu);
          group
              ->batch({{CollectiveKind::kSend, full({4}, rank, kFloat32, gpu), 1 - rank},
                       {CollectiveKind::kReceive, got, 1 - rank}})
              .wait();
          group->barrier().wait();
          EXPECT_EQ(got.cpu().to_vector<float>(),
                    std::vector<float>(4, static_cast<float>(1 - rank)));
        } else {
          group->barrier().wait();
        }
        const Tensor sum = ones({3}, kFloat32, gpu);
        group->all_reduce(sum).wait();
        EXPECT_EQ(sum.cpu().to_vector<float>(), std::vector<float>(3, 3));
      },
      std::chrono::seconds(30));
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(NcclBatch, SendsOneByOneThatWaitForEachOtherEndInTime) {
  if (!has_nccl(2)) GTEST_SKIP() << "no NCCL, or fewer GPUs than 2";
  const auto errors = errors_on_gpus(
      2,
      [](const Group& group) {
        const Tensor x = ones({1 << 20}, kFloat32, cuda_device(group->rank()));
        group->send(x, 1 - group->rank()).wait();
        group->recv(x, 1 - group->rank()).wait();
        synchronize(x.device());
        for (;;) group->barrier().wait();
      },
      milliseconds(300));
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("send (to rank "), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace wick::dist
