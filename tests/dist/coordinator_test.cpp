#include "wick/dist/detail/coordinator.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace wick::dist {
namespace {

using std::chrono::milliseconds;

// A system that refuses to wait for messages, as one without memory does: poll() refuses more
// descriptors than a process may have.
TEST(Coordinator, EndsWhereTheSystemDoesNotWait) {
  Socket listener = listen_at("127.0.0.1", 0);
  LaunchEnv env;
  env.world_size = 2;
  env.master_port = listener.port();
  Coordinator coordinator(std::move(listener), env, milliseconds(20'000));
  std::string reason;
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  const Socket stranger = connect_to("127.0.0.1", env.master_port, deadline, reason);
  const Socket second = connect_to("127.0.0.1", env.master_port, deadline, reason);
  ASSERT_TRUE(stranger.is_open() && second.is_open()) << reason;
  // Connections are taken in their order: once the second is turned away, both were.
  const std::string words(4096, '\1');
  send(second.descriptor(), words.data(), words.size(), MSG_NOSIGNAL);
  ASSERT_TRUE(second.wait(POLLIN, deadline));
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit low{.rlim_cur = 1, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  send(stranger.descriptor(), "hello", 5, MSG_NOSIGNAL);
  while (coordinator.why_deaf().empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(coordinator.why_deaf(), "rank 0 cannot wait for messages: Invalid argument");
  char byte = 0;
  EXPECT_TRUE(stranger.wait(POLLIN, deadline));
  EXPECT_LE(recv(stranger.descriptor(), &byte, 1, 0), 0);  // closed
}

}  // namespace
}  // namespace wick::dist
