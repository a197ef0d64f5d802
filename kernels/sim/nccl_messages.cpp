// Messages between two ranks of the simulated NCCL, in groups.
#include <utility>

#include "wick/kernels/sim/nccl_comm.h"

namespace {

using Meeting = wick::sim::NcclMeeting;
using Message = wick::sim::NcclMessage;
using wick::sim::bytes_of;

// Messages of one group, which wait for none of each other: all are given, all are taken, and
// then all that were given must have been, for a sender waits for its receiver.
ncclResult_t queue_messages(ncclComm& comm, const char* call,
                            const std::vector<Message>& messages) {
  const bool ends = comm.begin(messages[0].stream);
  const auto every = [messages](bool is_sent, const auto& condition) {
    return std::all_of(messages.begin(), messages.end(),
                       [&](const Message& x) { return x.is_sent != is_sent || condition(x); });
  };
  const ncclResult_t given = comm.queue_piece(
      call, [](const Meeting&) { return true; },
      [=](const Meeting& m) {
        for (const Message& x : messages) {
          if (!x.is_sent) continue;
          wick::sim::note_read(x.memory, x.bytes);
          m.give(x.what, x.memory, x.bytes, {x.peer});
        }
      });
  if (given != ncclSuccess) return given;
  const auto have_come = [=](const Meeting& m) {
    return ends && every(false, [&](const Message& x) { return m.has(x.what, x.peer, m.rank); });
  };
  const ncclResult_t taken = comm.queue_piece(call, have_come, [=](const Meeting& m) {
    for (const Message& x : messages) {
      if (x.is_sent) continue;
      wick::sim::note_write(x.memory, x.bytes);
      const std::vector<char> data = m.take(x.what, x.peer, x.bytes);
      if (x.bytes > 0) std::memcpy(x.memory, data.data(), x.bytes);
    }
  });
  if (taken != ncclSuccess) return taken;
  const auto are_taken = [=](const Meeting& m) {
    return every(true, [&](const Message& x) { return !m.has(x.what, m.rank, x.peer); });
  };
  return comm.queue_piece(call, are_taken, [](const Meeting&) {});
}

// What this thread has called since ncclGroupStart.
struct Group {
  int depth = 0;
  const char* call = nullptr;
  std::vector<std::pair<ncclComm*, Message>> messages;
};
thread_local Group group;

ncclResult_t queue_group() {
  ncclResult_t result = ncclSuccess;
  std::map<ncclComm*, std::vector<Message>> messages;
  for (auto& [comm, message] : std::exchange(group.messages, {})) {
    messages[comm].push_back(std::move(message));
  }
  for (const auto& [comm, all] : messages) {
    const ncclResult_t queued = queue_messages(*comm, group.call, all);
    if (result == ncclSuccess) result = queued;
  }
  return result;
}

// Outside of a group a message is one of its own.
ncclResult_t add_message(const char* call, ncclComm* comm, Message message) {
  if (comm->check(call, message.memory, message.bytes) != ncclSuccess) return ncclInvalidArgument;
  auto& counts = message.is_sent ? comm->sent : comm->received;
  message.what = wick::concat("m", ++counts[message.peer]);
  group.call = call;
  group.messages.emplace_back(comm, std::move(message));
  return group.depth > 0 ? ncclSuccess : queue_group();
}

}  // namespace

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  return --group.depth > 0 ? ncclSuccess : queue_group();
}

ncclResult_t ncclSend(const void* give, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_message("ncclSend", comm,
                     {.is_sent = true,
                      .memory = const_cast<void*>(give),
                      .bytes = count * bytes_of(type),
                      .peer = peer,
                      .stream = stream});
}

ncclResult_t ncclRecv(void* get, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_message(
      "ncclRecv", comm,
      {.memory = get, .bytes = count * bytes_of(type), .peer = peer, .stream = stream});
}
