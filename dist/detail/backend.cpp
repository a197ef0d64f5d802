#include "wick/dist/detail/backend.h"

#include <algorithm>

#include "wick/core/stream.h"
#include "wick/dist/detail/nccl.h"

namespace wick::dist {

namespace {

// What one rank tells the others.
struct Offer {
  std::string backend, shared_memory, why_no_nccl, gpu, is_simulated;
  std::string seen;  // GPUs to choose among, where none was named

  std::string text() const {
    return pack({backend, shared_memory, why_no_nccl, gpu, is_simulated, seen});
  }
  explicit Offer(const std::string& text) {
    std::vector<std::string> words = unpack(text);
    if (words.size() != 6) throw ProcessGroupError("process group: a rank sent nonsense");
    backend = words[0], shared_memory = words[1], why_no_nccl = words[2], gpu = words[3];
    is_simulated = words[4], seen = words[5];
  }
  Offer() = default;
};

// This rank's GPU for NCCL; throws if there is none.
Device gpu_of(const LaunchEnv& env, const ProcessGroupOptions& options) {
  WICK_CHECK(cuda_is_available(), why_no_cuda());
  if (!options.device) {
    WICK_CHECK(options.backend == Backend::kNccl, "no GPU was named");
    // Where each rank is shown one GPU, all are number 0; ranks that share one find out later.
    return cuda_device(env.local_rank % cuda_device_count());
  }
  WICK_CHECK(options.device->is_cuda(), "its tensors are on the CPU");
  return *options.device;
}

Offer offer_of(const LaunchEnv& env, const ProcessGroupOptions& options, Device& gpu) {
  Offer offer;
  offer.backend = to_string(options.backend);
  offer.shared_memory = options.shared_memory ? "yes" : "";
  if (options.backend == Backend::kGloo) return offer;
  try {
    gpu = gpu_of(env, options);
    offer.is_simulated = device_properties(gpu).simulated ? "yes" : "";
    if (!options.device) offer.seen = concat(cuda_device_count());
    nccl_version();
    offer.gpu = unique_name(gpu);
  } catch (const Error& error) {
    offer.why_no_nccl = error.what();
  }
  return offer;
}

// Why the ranks cannot use NCCL together; empty if they can.
std::string obstacle(const std::vector<Offer>& offers) {
  for (size_t r = 0; r < offers.size(); ++r) {
    if (!offers[r].why_no_nccl.empty()) return concat("rank ", r, ": ", offers[r].why_no_nccl);
  }
  for (size_t r = 0; r < offers.size(); ++r) {
    for (size_t other = 0; other < r; ++other) {
      if (offers[other].gpu != offers[r].gpu) continue;
      const std::string& seen = offers[r].seen;
      return concat("ranks ", other, " and ", r, " have the same GPU, and each needs its own",
                    seen.empty() ? "" : concat(", of ", seen, " that rank ", r, " sees"));
    }
  }
  return {};
}

}  // namespace

BackendChoice agree_on_backend(Control& control, const LaunchEnv& env,
                               const ProcessGroupOptions& options) {
  BackendChoice choice;
  std::vector<Offer> offers;
  for (const std::string& text : control.exchange(offer_of(env, options, choice.gpu).text())) {
    offers.emplace_back(text);
  }
  choice.shared_memory = std::all_of(offers.begin(), offers.end(),
                                     [](const Offer& o) { return !o.shared_memory.empty(); });
  for (size_t r = 1; r < offers.size(); ++r) {
    if (offers[r].backend == offers[0].backend) continue;
    throw ProcessGroupError(concat("process group: ranks want different backends: rank 0 ",
                                   offers[0].backend, ", rank ", r, " ", offers[r].backend));
  }
  if (options.backend == Backend::kGloo) return choice;
  const std::string why_not = obstacle(offers);
  if (options.backend == Backend::kNccl && !why_not.empty()) {
    throw ProcessGroupError(concat("process group: backend nccl cannot be used: ", why_not));
  }
  const bool is_simulated = std::any_of(offers.begin(), offers.end(),
                                        [](const Offer& o) { return !o.is_simulated.empty(); });
  if (options.device && options.device->is_cuda()) choice.why_no_nccl = why_not;
  choice.nccl = why_not.empty() && (options.backend == Backend::kNccl || !is_simulated);
  return choice;
}

}  // namespace wick::dist
