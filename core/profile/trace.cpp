#include "wick/core/profile/trace.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "wick/core/base/check.h"
#include "wick/core/profile/detail/json_stream.h"

namespace wick::profile {

namespace {

// Rows of streams come behind those of threads.
constexpr int64_t kFirstStream = 1'000'000;

bool is_device_work(const Event& event) {
  return event.kind == EventKind::kKernel || event.kind == EventKind::kDeviceCopy ||
         event.kind == EventKind::kDeviceWait;
}

// Whether an arrow leads to where it ran: what a capture queued never did.
bool has_launch(const Event& event) {
  return is_device_work(event) && (event.device_ns > 0 || event.sequence > 0);
}

class TraceWriter {
 public:
  TraceWriter(const Recording& recording, const std::string& path, const TraceOptions& options)
      : recording_(recording), out_(path), max_bytes_(options.max_bytes) {}

  void write() {
    out_.raw("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    write_names();
    for (const Entry& entry : in_order_of_time()) {
      if (out_.bytes() >= max_bytes_) {
        ++left_out_;
      } else if (entry.is_launch) {
        write_launch(entry);
      } else {
        write_event(recording_.events[entry.event], entry.event);
      }
    }
    write_tail();
    out_.commit();
  }

 private:
  struct Entry {
    int64_t time;
    size_t event;
    bool is_launch;
  };

  // Of those that begin together the outer one is listed first.
  std::vector<Entry> in_order_of_time() const {
    std::vector<Entry> order;
    for (size_t i = 0; i < recording_.events.size(); ++i) {
      const Event& event = recording_.events[i];
      const bool is_launched = has_launch(event);
      if (is_launched) order.push_back({event.start_ns, i, true});
      const bool is_timed = is_launched && event.device_ns > 0;
      order.push_back({is_timed ? event.device_start : event.start_ns, i, false});
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Entry& a, const Entry& b) { return a.time < b.time; });
    return order;
  }

  int64_t row_of(const Stream& stream) {
    const auto found = std::find(streams_.begin(), streams_.end(), stream);
    return kFirstStream + (found - streams_.begin());
  }

  void begin_event(const char* phase, std::string_view name, const char* category, int64_t row,
                   int64_t time) {
    out_.raw(is_first_ ? "\n" : ",\n").raw("{\"ph\":\"").raw(phase).raw("\",\"name\":").text(name);
    out_.raw(",\"cat\":\"").raw(category).raw("\",\"pid\":").number(recording_.rank);
    out_.raw(",\"tid\":").number(row).raw(",\"ts\":").microseconds(time);
    is_first_ = false;
  }

  void write_name(const char* what, int64_t row, const std::string& name) {
    out_.raw(is_first_ ? "\n" : ",\n").raw("{\"ph\":\"M\",\"name\":\"").raw(what);
    out_.raw("\",\"pid\":").number(recording_.rank).raw(",\"tid\":").number(row);
    out_.raw(",\"args\":{\"name\":").text(name).raw("}}");
    is_first_ = false;
  }

  void write_names() {
    std::set<uint32_t> threads;
    for (const Event& event : recording_.events) {
      threads.insert(event.thread);
      if (!is_device_work(event) && event.kind != EventKind::kCopy) continue;
      const Stream stream{event.device, const_cast<void*>(event.stream)};
      if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
        streams_.push_back(stream);
      }
    }
    write_name("process_name", 0, concat("rank ", recording_.rank, ", process ", getpid()));
    for (const uint32_t thread : threads) {
      write_name("thread_name", thread, concat("thread ", static_cast<int64_t>(thread)));
    }
    for (const Stream& stream : streams_) {
      write_name("thread_name", row_of(stream),
                 concat("stream ", row_of(stream) - kFirstStream, " of ", stream.device));
    }
  }

  void write_arguments(const Event& event) {
    const char* separator = ",\"args\":{";
    const auto key = [&](const char* name) {
      out_.raw(separator).raw("\"").raw(name).raw("\":");
      separator = ",";
    };
    if (event.sequence != 0) {
      key("Sequence number");
      out_.number(static_cast<int64_t>(event.sequence));
    }
    if (!event.shapes.empty()) {
      key("Input Dims");
      out_.text(event.shapes);
    }
    if (!event.module.empty()) {
      key("Module");
      out_.text(event.module);
    }
    if (event.bytes != 0) {
      key("bytes");
      out_.number(event.bytes);
    }
    if (event.flops != 0) {
      key("flops");
      out_.number(static_cast<int64_t>(event.flops));
    }
    if (separator[1] == 0) out_.raw("}");  // there was one
  }

  void write_counter(const std::string& name, int64_t time, int64_t value) {
    begin_event("C", name, "counter", 0, time);
    out_.raw(",\"args\":{\"value\":").number(value).raw("}}");
  }

  // The arrow from an operation to its backward.
  void write_flow(const Event& event) {
    const bool begins = event.kind == EventKind::kOp;
    const bool ends = event.kind == EventKind::kBackward;
    if (event.sequence == 0 || (!begins && !ends)) return;
    if (ends && !open_flows_.contains(event.sequence)) return;
    if (begins) open_flows_.insert(event.sequence);
    begin_event(begins ? "s" : "f", "fwdbwd", "fwdbwd", event.thread, event.start_ns);
    out_.raw(",\"id\":").number(static_cast<int64_t>(event.sequence));
    out_.raw(begins ? "}" : ",\"bp\":\"e\"}");
  }

  void write_event(const Event& event, size_t number) {
    const std::string device = to_string(event.device);
    switch (event.kind) {
      case EventKind::kAllocation:
      case EventKind::kFree:
        write_counter("memory of " + device, event.start_ns, event.allocated);
        return;
      case EventKind::kMemoryLabel: return;
      case EventKind::kKernel:
      case EventKind::kDeviceCopy:
      case EventKind::kDeviceWait: write_device_work(event, number); return;
      default: break;
    }
    begin_event("X", event.name, to_string(event.kind), event.thread, event.start_ns);
    out_.raw(",\"dur\":").microseconds(event.end_ns - event.start_ns);
    write_arguments(event);
    out_.raw("}");
    write_flow(event);
    if (event.kind == EventKind::kLoaderWait) {
      waited_ns_ += event.end_ns - event.start_ns;
      write_counter("microseconds waited for data", event.start_ns, waited_ns_ / 1000);
    }
  }

  // The arrow from where a kernel was queued to where it ran.
  void write_launch(const Entry& entry) {
    const Event& event = recording_.events[entry.event];
    begin_event("s", "launch", "launch", event.thread, event.start_ns);
    out_.raw(",\"id\":").number(static_cast<int64_t>(entry.event)).raw("}");
  }

  // Where no time is known, as on the simulated GPU, a moment: that of its queueing.
  void write_device_work(const Event& event, size_t number) {
    const int64_t row = row_of({event.device, const_cast<void*>(event.stream)});
    const bool is_timed = event.device_ns > 0;
    const int64_t time = is_timed ? event.device_start : event.start_ns;
    begin_event(is_timed ? "X" : "i", event.name, to_string(event.kind), row, time);
    if (is_timed) {
      out_.raw(",\"dur\":").microseconds(event.device_ns);
    } else {
      out_.raw(",\"s\":\"t\"");
    }
    if (event.sequence > 0) write_launch_arguments(event);
    out_.raw("}");
    if (!has_launch(event)) return;
    begin_event("f", "launch", "launch", row, time);
    out_.raw(",\"id\":").number(static_cast<int64_t>(number)).raw(",\"bp\":\"e\"}");
  }

  // By PyTorch's names.
  void write_launch_arguments(const Event& event) {
    const Launch& launch = recording_.launches[event.sequence - 1];
    out_.raw(",\"args\":{\"device\":").number(event.device.index);
    out_.raw(",\"stream\":").number(launch.stream);
    out_.raw(",\"correlation\":").number(launch.correlation);
    if (launch.graph_node != 0) {
      out_.raw(",\"graph node id\":").number(static_cast<int64_t>(launch.graph_node));
    }
    if (event.bytes != 0) out_.raw(",\"bytes\":").number(event.bytes);
    if (event.kind == EventKind::kKernel) {
      write_sizes("grid", launch.grid);
      write_sizes("block", launch.block);
      out_.raw(",\"registers per thread\":").number(launch.registers);
      out_.raw(",\"shared memory\":").number(launch.shared_memory);
    }
    out_.raw("}");
  }

  void write_sizes(const char* name, const int32_t (&sizes)[3]) {
    out_.raw(",\"").raw(name).raw("\":[").number(sizes[0]);
    out_.raw(",").number(sizes[1]).raw(",").number(sizes[2]).raw("]");
  }

  void write_tail() {
    out_.raw("\n],\"wick\":{\"rank\":").number(recording_.rank);
    out_.raw(",\"start_ns\":").number(recording_.start_ns);
    out_.raw(",\"start_system_ns\":").number(recording_.start_system_ns);
    out_.raw(",\"dropped_events\":").number(recording_.dropped);
    out_.raw(",\"dropped_activities\":").number(recording_.dropped_activities);
    out_.raw(",\"left_out_events\":").number(left_out_).raw("}}\n");
  }

  const Recording& recording_;
  JsonStream out_;
  const int64_t max_bytes_;
  bool is_first_ = true;
  std::vector<Stream> streams_;
  std::set<uint64_t> open_flows_;
  int64_t waited_ns_ = 0, left_out_ = 0;
};

}  // namespace

void write_chrome_trace(const Recording& recording, const std::string& path,
                        const TraceOptions& options) {
  WICK_CHECK(options.max_bytes > 0, "trace: max_bytes: got ", options.max_bytes,
             ", expected 1 or more");
  TraceWriter(recording, path, options).write();
}

}  // namespace wick::profile
