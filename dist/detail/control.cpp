#include "wick/dist/detail/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <system_error>

#include "wick/core/base/detail/start_thread.h"
#include "wick/core/file.h"

namespace wick::dist {

namespace {

using std::chrono::milliseconds;

// How long a rank gives rank 0 to decide and to tell.
constexpr milliseconds kVerdictTimeout{950};
// Rank 0 tells the others that time is up a little before they find out.
constexpr milliseconds kGrace{1000};
constexpr size_t kMostBytesFromRankZero = 64 << 20;

// Where rank 0 listens, as a rendezvous file says, and a token of its own beside the job's, which
// only those know that may read the file.
struct Place {
  std::string host;
  int port = 0;
  std::string token;
};

std::string text_of(const Place& place) {
  return concat("wick rendezvous\n", place.host, "\n", place.port, "\n", place.token, "\n");
}

// None while there is no such file, or one that is not whole.
std::optional<Place> read_place(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  WICK_CHECK(S_ISREG(status.st_mode) && status.st_uid == geteuid(), "rendezvous file ", path,
             ": not a file of this user's: will not be trusted");
  std::string text;
  try {
    text = read_file(path, 4096);
  } catch (const Error&) {
    return {};  // deleted meanwhile
  }
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  if (lines.size() != 4 || lines[0] != "wick rendezvous") return {};
  const int port = std::atoi(lines[2].c_str());
  if (port < 1 || port > 65535) return {};
  return Place{lines[1], port, lines[3]};
}

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += concat(device(), "-");
  return token;
}

// The rendezvous file, for as long as the ranks come together. Other users cannot read it.
class RendezvousFile {
 public:
  RendezvousFile(const std::string& path, const Place& place) : path_(path) {
    const std::string text = text_of(place), temporary = concat(path, ".", getpid());
    unlink(temporary.c_str());
    const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool is_written =
        file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) close(file);
    if (!is_written || rename(temporary.c_str(), path.c_str()) != 0) {
      const std::string reason = std::generic_category().message(errno);
      unlink(temporary.c_str());
      throw ProcessGroupError(concat("rendezvous file ", path, ": cannot be written: ", reason));
    }
  }
  ~RendezvousFile() { unlink(path_.c_str()); }
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  std::string path_;
};

// What listens at rank 0's address belongs to another job.
class WrongToken final : public ProcessGroupError {
 public:
  using ProcessGroupError::ProcessGroupError;
};

// How often a rank that waits for rank 0's welcome looks whether it does so at the right place.
constexpr milliseconds kLookAgain{200};

}  // namespace

Control::Control(const LaunchEnv& env, milliseconds timeout)
    : rank_(env.rank),
      world_size_(static_cast<size_t>(env.world_size)),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      has_left_(std::make_unique<std::atomic<bool>[]>(world_size_)) {
  LaunchEnv own = env;
  std::optional<RendezvousFile> file;
  if (rank_ == 0) {
    Socket listener = listen_at(env.master_addr, env.master_port, deadline_);
    own.master_port = listener.port();
    if (!env.rendezvous_file.empty()) {
      const std::string token = random_token();
      file.emplace(env.rendezvous_file, Place{env.master_addr, own.master_port, token});
      own.job_token += token;
      own.rendezvous_file.clear();
    }
    coordinator_ = std::make_unique<Coordinator>(std::move(listener), own, timeout);
  }
  join(own);
}

Control::~Control() { leave(); }

// Rank 0 may come later than the others, and a rendezvous file be left of another run: tries until
// it is time.
void Control::join(const LaunchEnv& env) {
  while (!try_to_join(env)) std::this_thread::sleep_for(milliseconds(20));
}

bool Control::try_to_join(const LaunchEnv& env) {
  const bool is_last = Clock::now() >= deadline_;
  LaunchEnv own = env;
  if (!env.rendezvous_file.empty()) {
    const std::optional<Place> place = read_place(env.rendezvous_file);
    if (!place && !is_last) return false;
    if (!place) {
      throw ProcessGroupError(concat("process group: rank ", rank_, " of ", env.world_size,
                                     " found no rendezvous file of rank 0 at ", env.rendezvous_file,
                                     " within ", timeout_.count(), " ms"));
    }
    own.master_addr = place->host;
    own.master_port = place->port;
    own.job_token += place->token;
  }
  std::string reason;
  Socket socket = connect_to(own.master_addr, own.master_port, deadline_, reason);
  if (!socket.is_open()) check_listening();  // rank 0 need not try any longer
  if (!socket.is_open() && !is_last) return false;
  if (!socket.is_open()) {
    throw ProcessGroupError(concat("process group: rank ", rank_, " cannot reach rank 0 at ",
                                   own.master_addr, ":", own.master_port, " within ",
                                   timeout_.count(), " ms: ", reason));
  }
  channel_ = std::make_unique<ControlChannel>(std::move(socket));
  const Hello hello{static_cast<uint32_t>(rank_), static_cast<uint32_t>(env.world_size),
                    own.job_token};
  send(ControlKind::kHello, hello.text());
  const auto deadline = deadline_;
  deadline_ = Clock::now() + timeout_ + kGrace;  // rank 0 tells before that
  const auto check_place = [&] {
    if (env.rendezvous_file.empty()) return;
    const std::optional<Place> place = read_place(env.rendezvous_file);
    if (place && env.job_token + place->token != own.job_token) {
      throw WrongToken(concat("process group: ", env.rendezvous_file, " was of another run"));
    }
  };
  try {
    wait_for(ControlKind::kWelcome, check_place);
  } catch (const WrongToken&) {
    if (env.rendezvous_file.empty() || is_last) throw;
    deadline_ = deadline;
    return false;
  }
  return true;
}

void Control::check_listening() const {
  const std::string why = coordinator_ ? coordinator_->why_deaf() : std::string();
  if (!why.empty()) throw ProcessGroupError(concat("process group: ", why));
}

ControlMessage Control::wait_for(ControlKind kind, const std::function<void()>& look_again) {
  for (bool is_there = true;;) {
    while (const std::optional<ControlMessage> message = channel_->next()) {
      if (message->kind == kind) return *message;
      if (message->kind == ControlKind::kAsk) send(ControlKind::kAlive, "");
      if (message->kind == ControlKind::kFailure) {
        throw ProcessGroupError(concat("process group: ", message->text));
      }
      if (message->kind == ControlKind::kRefused) {
        const std::string text =
            concat("process group: rank ", rank_, " was turned away: ", message->text);
        if (message->text == kWrongToken) throw WrongToken(text);
        throw ProcessGroupError(text);
      }
    }
    if (!is_there) {
      check_listening();
      throw ProcessGroupError(concat("process group: rank ", rank_,
                                     ": what listens at rank 0's "
                                     "address closed the connection: rank 0 is gone, or it is "
                                     "another program"));
    }
    bool has_news = false;
    while (!has_news && Clock::now() < deadline_) {
      has_news = channel_->socket().wait(POLLIN, std::min(deadline_, Clock::now() + kLookAgain));
      if (!has_news && look_again) look_again();
    }
    if (!has_news) {
      throw ProcessGroupError(concat("process group: rank ", rank_,
                                     " has heard nothing from "
                                     "rank 0 within ",
                                     timeout_.count(), " ms"));
    }
    is_there = channel_->fill(kMostBytesFromRankZero);
  }
}

std::vector<std::string> Control::exchange(const std::string& mine) {
  send(ControlKind::kBlob, mine);
  return await_blobs();
}

std::vector<std::string> Control::exchange_parts(const std::vector<std::string>& mine) {
  send(ControlKind::kParts, pack(mine));
  return await_blobs();
}

std::vector<std::string> Control::await_blobs() {
  std::vector<std::string> all = unpack(wait_for(ControlKind::kBlobs).text);
  if (all.size() != world_size_) throw ProcessGroupError("process group: rank 0 sent nonsense");
  return all;
}

void Control::start(std::function<void(const std::string&)> on_failure,
                    std::function<void()> on_left) {
  on_failure_ = std::move(on_failure);
  on_left_ = std::move(on_left);
  listener_ = wick::detail::start_thread("process group", [this] { listen(); });
}

void Control::leave(milliseconds linger) {
  if (is_leaving_.exchange(true)) return;
  if (listener_.joinable()) {
    send(ControlKind::kLeave, "");
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, linger,
                        [&] { return has_failed() || count_left_ + 1 >= world_size_; });
    }
    channel_->socket().shut_down();
    listener_.join();
  }
  coordinator_.reset();
}

// A message is small, and the system takes it at once unless rank 0 has been stopped for long.
void Control::send(ControlKind kind, std::string_view text) {
  const std::lock_guard lock(sending_);
  channel_->put(kind, text);
  const auto deadline = Clock::now() + kGrace;
  while (channel_->flush() && channel_->has_output()) {
    if (!channel_->socket().wait(POLLOUT, deadline)) return;
  }
}

void Control::listen() {
  for (;;) {
    channel_->socket().wait(POLLIN, Clock::now() + std::chrono::hours(1));
    const bool is_there = channel_->fill(kMostBytesFromRankZero);
    while (const std::optional<ControlMessage> message = channel_->next()) {
      if (message->kind == ControlKind::kAsk) {
        send(ControlKind::kAlive, "");
      } else if (message->kind == ControlKind::kFailure) {
        note_failure(message->text);
      } else if (message->kind == ControlKind::kLeft) {
        note_left(message->text);
      }
    }
    if (is_there) continue;
    if (!has_left_[0]) {
      note_failure("rank 0 is gone: its process ended, or its host is out of reach");
    }
    return;
  }
}

void Control::note_left(const std::string& text) {
  const auto rank = static_cast<size_t>(std::atoi(text.c_str()));
  if (rank >= world_size_) return;
  {
    const std::lock_guard lock(mutex_);
    if (!has_left_[rank].exchange(true, std::memory_order_release)) ++count_left_;
    changed_.notify_all();
  }
  on_left_();
}

void Control::note_failure(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) return;
    failure_ = reason;
    has_failed_.store(true, std::memory_order_release);
    changed_.notify_all();
    if (is_leaving_) return;  // nobody is left to tell
  }
  on_failure_(reason);
}

void Control::check(int peer) const {
  if (has_failed()) throw_failure();
  if (has_left(peer)) {
    throw ProcessGroupError(concat("rank ", peer, " left the group"));
  }
  if (Clock::now() >= deadline_) throw Late{peer};
}

void Control::throw_failure() const {
  const std::lock_guard lock(mutex_);
  throw ProcessGroupError(failure_);
}

void Control::wait_for_failure(milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return has_failed(); });
}

void Control::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_ || is_leaving_) return;
    failure_ = reason;
    has_failed_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  send(ControlKind::kFailure, reason);
}

void Control::blame(const std::string& what, const std::vector<int>& ranks) {
  std::vector<std::string> words = {concat(what, " (waited for ", timeout_.count(), " ms)")};
  for (const int r : ranks) words.push_back(std::to_string(r));
  send(ControlKind::kOverdue, pack(words));
  wait_for_failure(kVerdictTimeout);
  if (has_failed()) throw_failure();
  // Rank 0 gives the verdict: where it neither comes nor gives one, others may be behind for it.
  const bool is_silent = std::count(ranks.begin(), ranks.end(), 0) > 0;
  const std::string named = names_of(is_silent ? std::vector<int>{0} : ranks);
  const std::string who = ranks.empty() ? "not done" : concat(named, " did not come");
  throw ProcessGroupError(concat(what, ": ", who, " within ", timeout_.count(), " ms"));
}

}  // namespace wick::dist
