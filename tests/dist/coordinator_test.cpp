#include "wick/dist/detail/coordinator.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace wick::dist {
namespace {

using std::chrono::milliseconds;

// A system that refuses to wait for messages, as one without memory does: poll() refuses more
// descriptors than a process may have. Low numbers stay free, for sanitizers need some.
TEST(Coordinator, EndsWhereTheSystemDoesNotWait) {
  std::vector<Socket> low(16);
  for (Socket& socket : low) socket = Socket(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Socket listener = listen_at("127.0.0.1", 0);
  LaunchEnv env;
  env.world_size = 2;
  env.master_port = listener.port();
  Coordinator coordinator(std::move(listener), env, milliseconds(20'000));
  std::string reason;
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  std::vector<Socket> strangers(51);
  for (Socket& socket : strangers) {
    socket = connect_to("127.0.0.1", env.master_port, deadline, reason);
    ASSERT_TRUE(socket.is_open()) << reason;
  }
  // Connections are taken in their order: once the last is turned away, all were.
  const std::string words(4096, '\1');
  send(strangers.back().descriptor(), words.data(), words.size(), MSG_NOSIGNAL);
  ASSERT_TRUE(strangers.back().wait(POLLIN, deadline));
  low.clear();
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit few{.rlim_cur = 50, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  send(strangers.front().descriptor(), "hello", 5, MSG_NOSIGNAL);
  while (coordinator.why_deaf().empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(coordinator.why_deaf(), "rank 0 cannot wait for messages: Invalid argument");
  char byte = 0;
  EXPECT_TRUE(strangers.front().wait(POLLIN, deadline));
  EXPECT_LE(recv(strangers.front().descriptor(), &byte, 1, 0), 0);  // closed
}

}  // namespace
}  // namespace wick::dist
