#include <algorithm>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/kernels/sim/block_runner.h"

// What threads of a block do together: barriers, warp functions, shared memory, failures.
namespace wick::sim {

void BlockRunner::wait_at_barrier(Site site, bool value) {
  Thread& thread = current();
  thread.state = State::kAtBarrier;
  thread.site = site;
  thread.bits = value;
  ++at_barrier_;
  char* const ordered = token(0, thread.barriers++);
  release(ordered);
  release_barrier_if_complete();
  yield();
  acquire(ordered);
}

void BlockRunner::release_barrier_if_complete() {
  if (at_barrier_ == 0 || at_barrier_ < alive_) return;
  std::vector<int> waiting;
  int count = 0;
  for (int t = 0; t < size_; ++t) {
    if (threads_[size_t(t)].state != State::kAtBarrier) continue;
    waiting.push_back(t);
    count += threads_[size_t(t)].bits != 0;
  }
  const Thread& first = threads_[size_t(waiting[0])];
  for (const int t : waiting) {
    Thread& thread = threads_[size_t(t)];
    thread.count = count;
    if (thread.site.line == first.site.line && !std::strcmp(thread.site.file, first.site.file)) {
      continue;
    }
    failure_ = concat("divergent barrier: ", where(waiting[0]), ", ", where(t));
    return;
  }
  at_barrier_ = 0;
  make_ready(waiting);
}

void BlockRunner::sync_warp(Site site, unsigned mask) {
  Thread& thread = current();
  char* const ordered = token(1 + unsigned(running_->thread) / 32, thread.warp_syncs++);
  release(ordered);
  wait_at_warp(site, mask, 0, -1);
  acquire(ordered);
}

void BlockRunner::wait_at_warp(Site site, unsigned mask, uint64_t bits, int source) {
  const int t = running_->thread;
  Thread& thread = threads_[size_t(t)];
  if ((mask >> lane() & 1) == 0) {
    set_failure(site, "the thread is not in its own warp mask");
    stop();
  }
  thread.state = State::kAtWarp;
  thread.site = site;
  thread.mask = mask;
  thread.bits = bits;
  thread.source = source;
  release_warp_if_complete(unsigned(t) / 32, mask);
  yield();
}

void BlockRunner::release_warp_if_complete(unsigned warp, unsigned mask) {
  std::vector<int> lanes;
  for (int l = 0; l < 32; ++l) {
    if ((mask >> l & 1) == 0) continue;
    const int t = int(warp) * 32 + l;
    if (t >= size_ || threads_[size_t(t)].state == State::kDone) {
      return set_failure(current().site, concat("lane ", l, " of the warp mask is absent"));
    }
    lanes.push_back(t);
  }
  const Thread& me = current();
  for (const int t : lanes) {
    const Thread& thread = threads_[size_t(t)];
    const bool here_too = thread.state == State::kAtWarp && thread.mask == mask &&
                          thread.site.line == me.site.line &&
                          !std::strcmp(thread.site.file, me.site.file);
    if (!here_too) return;  // not yet; a deadlock is found when nobody can go on
  }
  std::vector<uint64_t> results;
  for (const int t : lanes) {
    const Thread& thread = threads_[size_t(t)];
    if (thread.source < 0) {
      uint64_t votes = 0;
      for (const int u : lanes) votes |= uint64_t{threads_[size_t(u)].bits != 0} << (u % 32);
      results.push_back(votes);
    } else if ((mask >> thread.source & 1) == 0) {
      return set_failure(me.site,
                         concat("lane ", thread.source, ", read from, is not in the mask"));
    } else {
      results.push_back(threads_[size_t(warp) * 32 + size_t(thread.source)].bits);
    }
  }
  for (size_t i = 0; i < lanes.size(); ++i) threads_[size_t(lanes[i])].bits = results[i];
  make_ready(lanes);
}

void* BlockRunner::shared(const void* key, size_t bytes) {
  const auto same = [&](const SharedVariable& v) { return v.key == key; };
  auto found = std::find_if(variables_.begin(), variables_.end(), same);
  if (found == variables_.end()) {
    variables_.push_back({key, bytes, used_, ~uint64_t{0}});
    found = variables_.end() - 1;
    used_ += (bytes + kGap + 15) / 16 * 16;
    size_t named = 0;
    for (const SharedVariable& v : variables_) named += v.bytes;
    if (named > kStaticSharedBytes || used_ > kSharedBytes) {
      failure_ = concat("too much shared memory: got ", named, " bytes, expected at most ",
                        kStaticSharedBytes);
      stop();
    }
  }
  char* place = arena_ + found->offset;
  if (found->block != block_) {
    found->block = block_;
    show(place, bytes);
    std::memset(place, 0xff, bytes);
  }
  return place;
}

std::string BlockRunner::where(int thread) const {
  const Thread& t = threads_[size_t(thread)];
  std::string text = concat("thread ", to_string(unravel(uint64_t(thread), kernel_.block)));
  if (t.state == State::kAtBarrier)
    return concat(text, " waits at ", t.site.file, ":", t.site.line);
  if (t.state == State::kAtWarp) {
    return concat(text, " waits for its warp at ", t.site.file, ":", t.site.line);
  }
  return text;
}

void BlockRunner::explain_deadlock() {
  failure_ = "threads wait for others that never come";
  int named = 0;
  Site last{"", -1};
  for (int t = 0; t < size_ && named < 4; ++t) {
    const Thread& thread = threads_[size_t(t)];
    if (thread.state == State::kDone || thread.site.line == last.line) continue;
    failure_ += concat(named++ == 0 ? ": " : ", ", where(t));
    last = thread.site;
  }
}

void BlockRunner::set_failure(Site site, const std::string& what) {
  failure_ = concat(what, ": ", where(running_->thread), ", at ", site.file, ":", site.line);
}

/// Ends the thread, and with it the kernel. Its stack is dropped as it is: nothing on it may own
/// anything.
void BlockRunner::stop() {
  for (;;) yield();
}

void sync_threads(Site site) { runner->wait_at_barrier(site, false); }

int sync_threads_count(Site site, bool value) {
  runner->wait_at_barrier(site, value);
  return runner->current().count;
}

void sync_warp(Site site, unsigned mask) { runner->sync_warp(site, mask); }

uint64_t shuffle(Site site, unsigned mask, uint64_t bits, int source) {
  runner->wait_at_warp(site, mask, bits, source & 31);
  return runner->current().bits;
}

unsigned ballot(Site site, unsigned mask, bool value) {
  runner->wait_at_warp(site, mask, value, -1);
  return static_cast<unsigned>(runner->current().bits);
}

int lane() { return runner->lane(); }

void fence() {
  static char token;
  release(&token);
  acquire(&token);
}

void* shared_variable(const void* key, size_t bytes) { return runner->shared(key, bytes); }
void* dynamic_shared() { return runner->dynamic_shared(); }

void trap(Site site, const char* what) {
  runner->set_failure(site, what);
  runner->stop();
}

}  // namespace wick::sim
