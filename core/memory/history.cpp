#include <chrono>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/core/memory/detail/allocator_impl.h"

namespace wick {

void CachingAllocator::Impl::keep_event(MemoryAction action, const void* pointer, size_t size,
                                        Stream stream) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const MemoryEvent event{action,
                          reinterpret_cast<uintptr_t>(pointer),
                          size,
                          stream,
                          std::chrono::duration_cast<std::chrono::microseconds>(now).count(),
                          detail::current_op()};
  if (events.size() < max_events) {
    events.push_back(event);
  } else {
    events[next_event] = event;
    next_event = (next_event + 1) % max_events;
  }
}

void CachingAllocator::Impl::tell_profiler(MemoryAction action, const void* pointer, size_t size,
                                           Stream stream) const {
  const bool is_free = action == MemoryAction::kFree;
  if (!is_free && action != MemoryAction::kAllocate) return;
  profile::detail::record_memory(is_free, pointer, size, stats.all.requested_bytes.current, stream);
}

void CachingAllocator::record_history(size_t max_entries) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->max_events = 0;
  impl_->events = {};
  impl_->events.reserve(max_entries);  // so that keeping one cannot fail
  impl_->max_events = max_entries;
  impl_->next_event = 0;
}

size_t CachingAllocator::history_limit() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->max_events;
}

std::vector<MemoryEvent> CachingAllocator::Impl::events_in_order() const {
  const auto oldest = events.begin() + static_cast<std::ptrdiff_t>(next_event);
  std::vector<MemoryEvent> in_order(oldest, events.end());
  in_order.insert(in_order.end(), events.begin(), oldest);
  return in_order;
}

namespace {

/// Writes Python values as a pickle of protocol 2. A value follows what begins it or its key.
class Pickle {
 public:
  Pickle() : out_("\x80\x02") {}

  Pickle& integer(uint64_t value) {  // below 2^63
    out_ += "\x8a\x08";              // LONG1 of 8 bytes
    append_bytes(value, 8);
    return *this;
  }
  Pickle& text(std::string_view value) {
    out_ += 'X';
    append_bytes(value.size(), 4);
    out_ += value;
    return *this;
  }
  Pickle& boolean(bool value) { return code(value ? '\x88' : '\x89'); }
  Pickle& begin_dict() { return code('}'); }  // each pair: key(...), a value, end_pair()
  Pickle& begin_list() { return code(']'); }  // each item: a value, end_item()
  Pickle& end_item() { return code('a'); }
  Pickle& key(std::string_view name) { return text(name); }
  Pickle& end_pair() { return code('s'); }
  Pickle& make_pair() { return code('\x86'); }  // of the last two values

  Pickle& item(std::string_view name, uint64_t value) {
    return key(name).integer(value).end_pair();
  }
  Pickle& item(std::string_view name, std::string_view value) {
    return key(name).text(value).end_pair();
  }
  std::string finish() && { return std::move(out_) + '.'; }

 private:
  Pickle& code(char c) {
    out_ += c;
    return *this;
  }
  void append_bytes(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) out_ += static_cast<char>(value >> 8 * i & 0xff);
  }

  std::string out_;
};

uint64_t number_of(Stream stream) { return reinterpret_cast<uintptr_t>(stream.handle); }

void write_frames(Pickle& out, const char* op) {
  out.key("frames").begin_list().begin_dict();
  out.item("name", *op != '\0' ? op : "outside operations").item("filename", "wick");
  out.item("line", uint64_t{0}).end_item().end_pair();
}

void write_block(Pickle& out, const BlockInfo& block) {
  constexpr const char* kStates[] = {"inactive", "active_allocated", "active_pending_free"};
  out.begin_dict().item("address", block.address).item("size", block.size);
  out.item("requested_size", block.requested);
  out.item("state", kStates[static_cast<size_t>(block.state)]);
  write_frames(out, block.op);
  out.end_item();
}

void write_segment(Pickle& out, const SegmentInfo& segment, uint64_t device) {
  uint64_t allocated = 0, active = 0, requested = 0;
  for (const BlockInfo& block : segment.blocks) {
    if (block.state == BlockState::kLive) allocated += block.size;
    if (block.state != BlockState::kFree) active += block.size;
    requested += block.requested;
  }
  out.begin_dict().item("device", device).item("address", segment.address);
  out.item("total_size", segment.size).item("allocated_size", allocated);
  out.item("active_size", active).item("requested_size", requested);
  out.item("stream", number_of(segment.stream));
  out.item("segment_type", segment.small ? "small" : "large");
  out.key("segment_pool_id").integer(0).integer(segment.pool).make_pair().end_pair();
  out.key("is_expandable").boolean(segment.expandable).end_pair();
  out.key("frames").begin_list().end_pair();
  out.key("blocks").begin_list();
  for (const BlockInfo& block : segment.blocks) write_block(out, block);
  out.end_pair().end_item();
}

void write_event(Pickle& out, const MemoryEvent& event, uint64_t device_free) {
  constexpr const char* kActions[] = {
      "alloc",        "free_requested", "free_completed", "segment_alloc",
      "segment_free", "segment_map",    "segment_unmap",  "oom"};
  out.begin_dict().item("action", kActions[static_cast<size_t>(event.action)]);
  out.item("addr", event.address).item("size", event.size);
  out.item("stream", number_of(event.stream));
  out.item("time_us", static_cast<uint64_t>(event.time_us));
  if (event.action == MemoryAction::kOutOfMemory) out.item("device_free", device_free);
  write_frames(out, event.op);
  out.end_item();
}

}  // namespace

void record_memory_history(Device device, size_t max_entries) {
  allocator(device).record_history(max_entries);
}

size_t memory_history_limit(Device device) { return allocator(device).history_limit(); }

std::vector<MemoryEvent> memory_history(Device device) {
  std::vector<MemoryEvent> history;
  allocator(device).snapshot(&history);
  return history;
}

void save_memory_snapshot(Device device, const std::string& path) {
  const CachingAllocator& of_device = allocator(device);
  std::vector<MemoryEvent> history;
  const std::vector<SegmentInfo> segments = of_device.snapshot(&history);
  const size_t limit = of_device.memory_limit();
  const auto index = static_cast<uint64_t>(device.index);
  uint64_t reserved = 0;
  Pickle out;
  out.begin_dict().key("segments").begin_list();
  for (const SegmentInfo& segment : segments) {
    write_segment(out, segment, index);
    reserved += segment.size;
  }
  out.end_pair().key("device_traces").begin_list();
  for (uint64_t before = 0; before < index; ++before) out.begin_list().end_item();
  out.begin_list();
  for (const MemoryEvent& event : history) {
    write_event(out, event, limit > reserved ? limit - reserved : 0);
  }
  out.end_item().end_pair();
  write_file(path, std::move(out).finish());
}

}  // namespace wick
