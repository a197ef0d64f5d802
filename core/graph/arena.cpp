#include "wick/core/graph/detail/arena.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>

#include "wick/core/memory/allocator.h"

namespace wick::graph {

namespace {
constexpr size_t kNever = SIZE_MAX;
constexpr size_t kAlignment = 64;
}  // namespace

struct Arena::Request {
  size_t bytes = 0;
  size_t begin = 0;  // in the order of requests and releases
  std::atomic<size_t> end = kNever;
  size_t offset = kNever;          // in the block; kNever: left to the allocator
  std::vector<size_t> neighbours;  // requests whose places overlap
  void* data = nullptr;            // of the allocator, while watched
  Block* block = nullptr;
  std::atomic<bool> is_live{false};
};

// Lives as long as any memory of it.
struct Arena::Block final : RefCounted {
  std::vector<std::unique_ptr<Request>> requests;
  // Other threads may free what the program got.
  std::atomic<size_t> clock = 0;
  std::atomic<bool> is_watched = true;
  char* data = nullptr;
  size_t bytes = 0;

  ~Block() override {
    if (data != nullptr) allocator(kCpu).deallocate(data);
  }
};

Arena::Arena() = default;
Arena::~Arena() = default;

size_t Arena::bytes() const { return phase_ == Phase::kServe && block_ ? block_->bytes : 0; }

void Arena::begin_run() {
  next_ = 0;
  differs_ = false;
  if (phase_ == Phase::kWatch) {
    block_ = make_ref<Block>();
  } else if (phase_ == Phase::kPlan) {
    plan();
    phase_ = Phase::kServe;
  }
}

void Arena::end_run() {
  if (phase_ == Phase::kWatch) {
    phase_ = Phase::kPlan;
  } else if (phase_ == Phase::kFirst || differs_) {
    phase_ = Phase::kWatch;
  }
}

void* Arena::place(size_t bytes, Device device, std::function<void()>& release) {
  if (!device.is_cpu() || phase_ == Phase::kFirst || differs_) return nullptr;
  if (phase_ == Phase::kWatch) return watch(bytes, release);
  if (next_ == block_->requests.size() || block_->requests[next_]->bytes != bytes) {
    differs_ = true;
    return nullptr;
  }
  Request* const request = block_->requests[next_++].get();
  if (request->offset == kNever || request->is_live) return nullptr;
  for (const size_t other : request->neighbours) {
    if (block_->requests[other]->is_live) return nullptr;  // it lives longer this time
  }
  request->is_live = true;
  request->block->retain();
  release = [request] {
    request->is_live = false;
    request->block->release();
  };
  return block_->data + request->offset;
}

// From the allocator, noting when it is free again.
void* Arena::watch(size_t bytes, std::function<void()>& release) {
  block_->requests.push_back(std::make_unique<Request>());
  Request* const request = block_->requests.back().get();
  request->bytes = bytes;
  request->begin = block_->clock++;
  request->block = block_.get();
  request->data = allocator(kCpu).allocate(bytes, current_stream(kCpu));
  request->block->retain();
  release = [request] {
    allocator(kCpu).deallocate(request->data);
    if (request->block->is_watched) request->end = request->block->clock++;
    request->block->release();
  };
  return request->data;
}

// The largest first, each at the lowest place that nothing living at the same time has. What was
// freed between the runs, as gradients are, lives to the end of a run.
void Arena::plan() {
  block_->is_watched = false;
  auto& requests = block_->requests;
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a]->bytes > requests[b]->bytes; });
  std::vector<Request*> placed;  // by offset
  for (const size_t i : order) {
    Request& request = *requests[i];
    if (request.end == kNever) continue;
    const size_t bytes = (request.bytes + kAlignment - 1) / kAlignment * kAlignment;
    size_t offset = 0;
    for (const Request* other : placed) {
      const bool together = request.begin < other->end && other->begin < request.end;
      if (together && offset + bytes > other->offset) {
        offset = std::max(
            offset, (other->offset + other->bytes + kAlignment - 1) / kAlignment * kAlignment);
      }
    }
    request.offset = offset;
    block_->bytes = std::max(block_->bytes, offset + bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &request,
                         [](const Request* a, const Request* b) { return a->offset < b->offset; }),
        &request);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t k = 0; k < requests.size(); ++k) {
      const Request &a = *requests[i], &b = *requests[k];
      if (i == k || a.offset == kNever || b.offset == kNever) continue;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      if (overlap) requests[i]->neighbours.push_back(k);
    }
  }
  if (block_->bytes > 0) {
    allocator(kCpu).empty_cache();  // what the runs before had, the block takes the place of
    block_->data =
        static_cast<char*>(allocator(kCpu).allocate(block_->bytes, current_stream(kCpu)));
  }
}

}  // namespace wick::graph
