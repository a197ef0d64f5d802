#pragma once

#include <functional>
#include <memory>
#include <string>

#include "wick/dist/detail/control.h"
#include "wick/dist/process_group.h"

// The one door to NCCL, which nccl_absent.cpp keeps shut in builds without it.
namespace wick::dist {

/// The version of NCCL that is there, "2.28.9". Error if there is none, or this build has no use
/// for it.
std::string nccl_version();

/// What no other GPU of any machine has for a name.
std::string unique_name(Device gpu);

/// What rank 0 has to give to all ranks before they make their NcclGroup.
std::string new_nccl_id();

/// What an NcclGroup tells, from a thread of its own.
struct NcclEvents {
  /// It fails, for that reason.
  std::function<void(const std::string& reason)> failed;
  /// A collective is over on the GPU.
  std::function<void(CollectiveKind kind, uint64_t sequence)> ended;
  /// NCCL's abort does not return: nothing will, that waits for this GPU.
  std::function<void(const std::string& reason)> stuck;
};

/// One rank's communicator of NCCL, and a thread that watches whether what was queued comes to an
/// end. What the ranks ask for is the caller's to compare.
class NcclGroup {
 public:
  virtual ~NcclGroup() = default;
  /// Queues a collective of tensors of this rank's GPU on the current stream. Called by one thread.
  virtual void run(const Collective& collective) = 0;
  /// Ends what is under way, and the communicator, soon after. Any thread may call it.
  virtual void abort() = 0;
  /// Waits for what is under way, and ends the communicator. Then the events are over.
  virtual void stop() = 0;
};

/// Returns when all ranks have called it with the `id` that rank 0 made; waits until the deadline
/// of `control`. ProcessGroupError says why not.
std::unique_ptr<NcclGroup> make_nccl_group(Control& control, int rank, int size, Device gpu,
                                           const std::string& id, std::chrono::milliseconds timeout,
                                           NcclEvents events);

}  // namespace wick::dist
