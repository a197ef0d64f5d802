#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "wick/dist/detail/socket.h"
#include "wick/dist/launch_env.h"

namespace wick::dist {

/// What a rank says first, in a kHello.
struct Hello {
  uint32_t rank = 0, world_size = 0;
  std::string job_token;

  std::string text() const;
  /// None if `text` is not of this program; `reason` says so in that case, and if the version
  /// differs.
  static std::optional<Hello> parse(std::string_view text, std::string& reason);
};

/// Why rank 0 refuses a process of another job.
inline constexpr const char* kWrongToken =
    "the job token (WICK_JOB_TOKEN) differs from rank 0's: is another job at this address?";

/// "rank 1", "ranks 1, 2"
std::string names_of(const std::vector<int>& ranks);

/// Of a kBlobs: what each rank gave.
std::string pack(const std::vector<std::string>& blobs);
/// Empty if `text` is not of that form.
std::vector<std::string> unpack(std::string_view text);

/// The thread of rank 0 that all ranks, rank 0 included, are connected to. It brings them together,
/// turns strangers away, passes on what they give, and tells all when one is gone, fails, or does
/// not answer.
class Coordinator {
 public:
  /// Waits for env.world_size ranks until `timeout` from now.
  Coordinator(Socket listener, const LaunchEnv& env, std::chrono::milliseconds timeout);
  /// Sends what is to be sent, at most for a second, and ends.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Why it accepts nobody any more, be it from rank 0's own process; empty while it does.
  std::string why_deaf() const;

 private:
  struct Client {
    explicit Client(Socket socket) : channel(std::move(socket)) {}
    ControlChannel channel;
    int rank = -1;  // none yet
    Clock::time_point hello_by = {}, answered = {};
    bool left = false, is_closing = false, is_gone = false;
  };
  struct Overdue {
    std::string what;  // the collective and how long was waited
    std::vector<int> ranks;
    Clock::time_point asked = {}, decide_by = {};
  };

  void loop();
  Clock::time_point next_deadline() const;
  bool poll_all();
  void accept_all();
  void give_up_listening(const char* what, int error);
  void serve(Client& client);
  void handle(Client& client, const ControlMessage& message);
  void greet(Client& client, const ControlMessage& message);
  void begin_if_complete();
  void hand_out_parts();
  void keep_time();
  void decide_overdue(bool is_late);
  void lose(Client& client);
  void refuse(Client& client, const std::string& reason);
  /// Tells all ranks but `except`, and no second time.
  void fail(const std::string& reason, int except = -1);
  void tell_all(ControlKind kind, std::string_view text, int except = -1);
  std::vector<int> missing() const;

  Socket listener_, wake_reader_, wake_writer_;
  const LaunchEnv env_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point start_by_;
  const std::string place_;  // where it listens
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<int, std::string> blobs_;
  std::map<int, std::vector<std::string>> parts_;
  std::optional<Overdue> overdue_;
  std::string failure_;
  mutable std::mutex reason_mutex_;
  std::string why_deaf_;
  bool has_begun_ = false, has_failed_ = false, is_stopping_ = false;
  int failed_polls_ = 0;  // one after the other
  Clock::time_point stop_by_ = {};
  std::thread thread_;  // last: it uses the others
};

}  // namespace wick::dist
