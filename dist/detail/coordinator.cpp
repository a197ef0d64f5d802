#include "wick/dist/detail/coordinator.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "wick/core/base/detail/start_thread.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

namespace {

using std::chrono::milliseconds;

constexpr char kMagic[] = "wick process group";
constexpr uint32_t kProtocolVersion = 2;
constexpr size_t kMostBytesOfHello = 1024;
constexpr size_t kMostBytesOfNotice = 1 << 20;
constexpr int kMostStrangers = 64;
constexpr milliseconds kHelloTimeout{5000};
// How long a rank may take to say that it lives.
constexpr milliseconds kAnswerTimeout{700};
// A system may lack memory for a moment: a second of failing waits is too long.
constexpr int kMostFailedPolls = 100;
constexpr milliseconds kPauseOfFailedPoll{10};

void append_number(std::string& text, uint32_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::optional<uint32_t> take_number(std::string_view& text) {
  uint32_t number = 0;
  if (text.size() < sizeof number) return {};
  std::memcpy(&number, text.data(), sizeof number);
  text.remove_prefix(sizeof number);
  return number;
}

// The same time for any token of that length, however much of it is right.
bool is_same_secret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  }
  return difference == 0;
}

std::pair<Socket, Socket> socket_pair() {
  int ends[2] = {-1, -1};
  WICK_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
             "process group: cannot make a pair of sockets");
  return {Socket(ends[0]), Socket(ends[1])};
}

}  // namespace

std::string Hello::text() const {
  std::string text(kMagic, sizeof kMagic);
  append_number(text, kProtocolVersion);
  append_number(text, rank);
  append_number(text, world_size);
  return text + job_token;
}

std::optional<Hello> Hello::parse(std::string_view text, std::string& reason) {
  if (text.substr(0, sizeof kMagic) != std::string_view(kMagic, sizeof kMagic)) {
    reason = "it is no process of a group";
    return {};
  }
  text.remove_prefix(sizeof kMagic);
  const auto version = take_number(text);
  if (version != kProtocolVersion) {
    reason = concat("versions differ: rank 0 speaks ", kProtocolVersion, ", this rank ",
                    version.value_or(0), ": all ranks must run the same program");
    return {};
  }
  const auto rank = take_number(text), size = take_number(text);
  if (!rank || !size) {
    reason = "it is no process of a group";
    return {};
  }
  return Hello{*rank, *size, std::string(text)};
}

std::string names_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += concat(i == 0 ? "" : ", ", ranks[i]);
  return text;
}

std::string pack(const std::vector<std::string>& blobs) {
  std::string text;
  for (const std::string& blob : blobs) {
    append_number(text, static_cast<uint32_t>(blob.size()));
    text += blob;
  }
  return text;
}

std::vector<std::string> unpack(std::string_view text) {
  std::vector<std::string> blobs;
  while (!text.empty()) {
    const auto size = take_number(text);
    if (!size || *size > text.size()) return {};
    blobs.emplace_back(text.substr(0, *size));
    text.remove_prefix(*size);
  }
  return blobs;
}

Coordinator::Coordinator(Socket listener, const LaunchEnv& env, milliseconds timeout)
    : listener_(std::move(listener)),
      env_(env),
      timeout_(timeout),
      start_by_(Clock::now() + timeout),
      place_(concat(listener_.address(), ":", listener_.port())) {
  std::tie(wake_reader_, wake_writer_) = socket_pair();
  thread_ = wick::detail::start_thread("process group", [this] { loop(); });
}

Coordinator::~Coordinator() {
  wake_writer_.shut_down();
  thread_.join();
}

void Coordinator::loop() {
  while (poll_all()) {
    keep_time();
    std::erase_if(clients_, [](const auto& c) { return c->is_gone; });
    if (!is_stopping_) continue;
    const bool has_output = std::any_of(clients_.begin(), clients_.end(),
                                        [](const auto& c) { return c->channel.has_output(); });
    if (!has_output || Clock::now() >= stop_by_) return;
  }
}

Clock::time_point Coordinator::next_deadline() const {
  Clock::time_point next = Clock::now() + std::chrono::minutes(1);
  if (is_stopping_) next = std::min(next, stop_by_);
  if (!has_begun_ && !has_failed_) next = std::min(next, start_by_);
  if (overdue_) next = std::min(next, overdue_->decide_by);
  for (const auto& client : clients_) {
    if (client->rank < 0) next = std::min(next, client->hello_by);
  }
  return next;
}

// Whether to go on: a system that refuses to wait, again and again, ends the group.
bool Coordinator::poll_all() {
  std::vector<pollfd> all;
  all.push_back({is_stopping_ ? -1 : wake_reader_.descriptor(), POLLIN, 0});
  all.push_back({listener_.descriptor(), POLLIN, 0});
  const size_t known = clients_.size();
  for (const auto& client : clients_) {
    const short events = client->channel.has_output() ? POLLIN | POLLOUT : POLLIN;
    all.push_back({client->channel.socket().descriptor(), events, 0});
  }
  const auto left = std::chrono::ceil<milliseconds>(next_deadline() - Clock::now()).count();
  const int ready = poll(all.data(), all.size(), static_cast<int>(std::max<int64_t>(left, 0)));
  if (ready < 0 && errno != EINTR) {
    if (++failed_polls_ < kMostFailedPolls) {
      std::this_thread::sleep_for(kPauseOfFailedPoll);
      return true;
    }
    give_up_listening("wait for messages", errno);
    clients_.clear();
    return false;
  }
  failed_polls_ = 0;
  if (ready <= 0) return true;
  if (all[0].revents != 0) {
    is_stopping_ = true;
    stop_by_ = Clock::now() + std::chrono::seconds(1);
    tell_all(ControlKind::kLeft, "0", 0);
  }
  for (size_t i = 0; i < known; ++i) {
    if (all[i + 2].revents != 0) serve(*clients_[i]);
  }
  if (all[1].revents != 0) accept_all();
  return true;
}

void Coordinator::accept_all() {
  for (;;) {
    int error = 0;
    Socket socket = accept_from(listener_, error);
    if (is_exhaustion(error)) return give_up_listening("accept a connection", error);
    if (!socket.is_open()) return;
    const auto is_stranger = [](const auto& c) { return c->rank < 0 && !c->is_gone; };
    const auto strangers = std::count_if(clients_.begin(), clients_.end(), is_stranger);
    if (strangers >= env_.world_size + kMostStrangers) {  // the oldest has said nothing for longest
      lose(**std::find_if(clients_.begin(), clients_.end(), is_stranger));
    }
    clients_.push_back(std::make_unique<Client>(std::move(socket)));
    clients_.back()->hello_by = Clock::now() + kHelloTimeout;
  }
}

// Those who are not connected yet, this rank among them, see the connection closed.
void Coordinator::give_up_listening(const char* what, int error) {
  const std::string reason =
      concat("rank 0 cannot ", what, ": ", std::generic_category().message(error));
  {
    const std::lock_guard lock(reason_mutex_);
    why_deaf_ = reason;
  }
  listener_ = Socket();
  fail(reason);
}

std::string Coordinator::why_deaf() const {
  const std::lock_guard lock(reason_mutex_);
  return why_deaf_;
}

void Coordinator::serve(Client& client) {
  const bool is_there =
      client.channel.fill(client.rank < 0 ? kMostBytesOfHello : kMostBytesOfNotice);
  while (!client.is_gone && !client.is_closing) {
    const std::optional<ControlMessage> message = client.channel.next();
    if (!message) break;
    handle(client, *message);
  }
  if (client.is_gone) return;
  if (!client.channel.flush() || !is_there) return lose(client);
  if (client.is_closing && !client.channel.has_output()) lose(client);
}

void Coordinator::handle(Client& client, const ControlMessage& message) {
  if (client.rank < 0) return greet(client, message);
  switch (message.kind) {
    case ControlKind::kBlob: {
      blobs_[client.rank] = message.text;
      if (static_cast<int>(blobs_.size()) < env_.world_size) break;
      std::vector<std::string> all;
      for (auto& [rank, blob] : blobs_) all.push_back(std::move(blob));
      blobs_.clear();
      tell_all(ControlKind::kBlobs, pack(all));
      break;
    }
    case ControlKind::kParts:
      parts_[client.rank] = unpack(message.text);
      hand_out_parts();
      break;
    case ControlKind::kAlive:
      client.answered = Clock::now();
      decide_overdue(false);
      break;
    case ControlKind::kOverdue: {
      const std::vector<std::string> words = unpack(message.text);
      if (overdue_ || has_failed_ || words.empty()) break;
      overdue_ = Overdue{words[0], {}, Clock::now(), Clock::now() + kAnswerTimeout};
      for (size_t i = 1; i < words.size(); ++i) {
        overdue_->ranks.push_back(std::atoi(words[i].c_str()));
      }
      tell_all(ControlKind::kAsk, "");
      break;
    }
    case ControlKind::kFailure:
      fail(concat("rank ", client.rank, " failed: ", message.text), client.rank);
      break;
    case ControlKind::kLeave:
      if (std::exchange(client.left, true)) break;
      tell_all(ControlKind::kLeft, std::to_string(client.rank), client.rank);
      break;
    default: break;
  }
}

// To each rank what all ranks gave for it, once all have.
void Coordinator::hand_out_parts() {
  const auto size = static_cast<size_t>(env_.world_size);
  if (parts_.size() < size) return;
  for (const auto& client : clients_) {
    if (client->rank < 0 || client->is_gone) continue;
    std::vector<std::string> own;
    for (auto& [rank, parts] : parts_) {
      parts.resize(size);
      own.push_back(std::move(parts[static_cast<size_t>(client->rank)]));
    }
    client->channel.put(ControlKind::kBlobs, pack(own));
    client->channel.flush();
  }
  parts_.clear();
}

void Coordinator::greet(Client& client, const ControlMessage& message) {
  std::string reason;
  const std::optional<Hello> hello = Hello::parse(message.text, reason);
  if (message.kind != ControlKind::kHello || !hello) return refuse(client, reason);
  if (!is_same_secret(hello->job_token, env_.job_token)) {
    return refuse(client, kWrongToken);
  }
  if (has_failed_) return refuse(client, failure_);
  const auto size = static_cast<uint32_t>(env_.world_size);
  if (hello->world_size != size || hello->rank >= size) {
    reason = concat("ranks disagree about their number: rank 0 is one of ", size, ", rank ",
                    hello->rank, " one of ", hello->world_size);
    refuse(client, reason);
    return fail(reason);
  }
  const int rank = static_cast<int>(hello->rank);
  for (const auto& other : clients_) {
    if (other->rank != rank) continue;
    reason = concat("two processes are rank ", rank, " of ", size);
    refuse(client, reason);
    return fail(reason);
  }
  client.rank = rank;
  begin_if_complete();
}

void Coordinator::begin_if_complete() {
  if (has_begun_ || has_failed_ || !missing().empty()) return;
  has_begun_ = true;
  listener_ = Socket();
  tell_all(ControlKind::kWelcome, "");
}

std::vector<int> Coordinator::missing() const {
  std::vector<int> ranks;
  for (int r = 0; r < env_.world_size; ++r) {
    if (std::none_of(clients_.begin(), clients_.end(),
                     [r](const auto& c) { return c->rank == r && !c->is_gone; })) {
      ranks.push_back(r);
    }
  }
  return ranks;
}

void Coordinator::keep_time() {
  const auto now = Clock::now();
  if (!has_begun_ && !has_failed_ && now >= start_by_) {
    fail(concat(names_of(missing()), " of ", env_.world_size, " did not come to ", place_,
                " within ", timeout_.count(), " ms"));
  }
  if (overdue_ && now >= overdue_->decide_by) decide_overdue(true);
  for (const auto& client : clients_) {
    if (client->rank < 0 && now >= client->hello_by) client->is_gone = true;
  }
}

// Whom to blame: those who do not say that they live, or else those who were waited for.
void Coordinator::decide_overdue(bool is_late) {
  if (!overdue_) return;
  std::vector<int> silent;
  for (const auto& client : clients_) {
    if (client->rank >= 0 && !client->left && client->answered < overdue_->asked) {
      silent.push_back(client->rank);
    }
  }
  if (!silent.empty() && !is_late) return;
  std::sort(silent.begin(), silent.end());
  const Overdue overdue = std::move(*overdue_);
  overdue_.reset();
  if (silent.empty() && overdue.ranks.empty()) {
    fail(concat(overdue.what, ": all ranks came, and live: a GPU hangs, or what connects them"));
  } else if (silent.empty()) {
    fail(concat(overdue.what, ": ", names_of(overdue.ranks), " did not come in time"));
  } else {
    fail(concat(overdue.what, ": ", names_of(silent),
                " did not come in time, nor answer: stopped, or out of reach"));
  }
}

void Coordinator::lose(Client& client) {
  client.is_gone = true;
  if (client.rank < 0 || client.left) return;
  fail(concat("rank ", client.rank, " is gone: its process ended, or its host is out of reach"));
}

void Coordinator::refuse(Client& client, const std::string& reason) {
  client.channel.put(ControlKind::kRefused, reason);
  client.is_closing = true;
}

void Coordinator::fail(const std::string& reason, int except) {
  if (std::exchange(has_failed_, true)) return;
  failure_ = reason;
  tell_all(ControlKind::kFailure, reason, except);
}

void Coordinator::tell_all(ControlKind kind, std::string_view text, int except) {
  for (const auto& client : clients_) {
    if (client->rank < 0 || client->rank == except || client->is_gone) continue;
    client->channel.put(kind, text);
    client->channel.flush();  // the rest follows; reading shows whether it is gone
  }
}

}  // namespace wick::dist
