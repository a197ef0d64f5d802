#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/kernels/sim/block_runner.h"

// What threads of a block do together: barriers, warp functions, shared memory, failures.
namespace wick::sim {

namespace {

bool is_same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || !std::strcmp(a.file, b.file));
}

}  // namespace

void BlockRunner::wait_at_barrier(Site site, bool value) {
  Thread& thread = current();
  thread.state = State::kAtBarrier;
  thread.site = site;
  thread.bits = value;
  char* const ordered = token(0, thread.barriers++);
  release(ordered);
  yield();
  acquire(ordered);
}

void BlockRunner::release_barrier_if_complete() {
  if (at_barrier_ == 0 || at_barrier_ < alive_) return;
  together_.clear();
  int count = 0;
  for (int t = 0; t < size_; ++t) {
    if (threads_[t].state != State::kAtBarrier) continue;
    together_.push_back(t);
    count += threads_[t].bits != 0;
  }
  const int first = together_[0];
  for (const int t : together_) {
    threads_[t].count = count;
    if (is_same(threads_[t].site, threads_[first].site)) continue;
    failure_ = concat("divergent barrier: ", where(first), ", ", where(t));
    return;
  }
  at_barrier_ = 0;
  make_ready(together_.data(), int(together_.size()));
}

void BlockRunner::sync_warp(Site site, unsigned mask) {
  Thread& thread = current();
  char* const ordered = token(1 + unsigned(running_->thread) / 32, thread.warp_syncs++);
  release(ordered);
  wait_at_warp(site, mask, 0, -1);
  acquire(ordered);
}

void BlockRunner::wait_at_warp(Site site, unsigned mask, uint64_t bits, int source) {
  Thread& thread = current();
  if ((mask >> lane() & 1) == 0) stop(site, "the thread is not in its own warp mask");
  thread.state = State::kAtWarp;
  thread.site = site;
  thread.mask = mask;
  thread.bits = bits;
  thread.source = source;
  yield();
}

void BlockRunner::release_warp_if_complete(int thread_of_warp) {
  const Thread& me = threads_[thread_of_warp];
  Warp& warp = warp_of(thread_of_warp);
  const unsigned mask = me.mask;
  if (const unsigned absent = mask & warp.absent; absent != 0) {
    const int lane = __builtin_ctz(absent);
    return set_failure(me, concat("lane ", lane, " of the warp mask is absent"));
  }
  if ((mask & warp.waiting) != mask) return;
  const int first = thread_of_warp / 32 * 32;
  int threads[32], count = 0;
  unsigned votes = 0;
  for (unsigned left = mask; left != 0; left &= left - 1) {
    const int t = first + __builtin_ctz(left);
    const Thread& thread = threads_[t];
    // Not yet, if they wait for others; a deadlock is found when nobody can go on.
    if (thread.mask != mask || !is_same(thread.site, me.site)) return;
    votes |= unsigned{thread.bits != 0} << (t - first);
    threads[count++] = t;
  }
  uint64_t results[32];
  for (int i = 0; i < count; ++i) {
    const int source = threads_[threads[i]].source;
    if (source >= 0 && (mask >> source & 1) == 0) {
      return set_failure(me, concat("lane ", source, ", read from, is not in the mask"));
    }
    results[i] = source < 0 ? votes : threads_[first + source].bits;
  }
  for (int i = 0; i < count; ++i) threads_[threads[i]].bits = results[i];
  warp.waiting &= ~mask;
  make_ready(threads, count);
}

void* BlockRunner::shared(const void* key, size_t bytes) {
  int i = 0;
  while (i < variable_count_ && variables_[i].key != key) ++i;
  SharedVariable& variable = variables_[i];
  if (i == variable_count_) {
    variable = {key, bytes, used_, ~uint64_t{0}};
    ++variable_count_;
    used_ += (bytes + kGap + 15) / 16 * 16;
    named_ += bytes;
    if (named_ > kStaticSharedBytes || used_ > kSharedBytes || variable_count_ == kMostVariables) {
      stop({}, "too much shared memory");
    }
  }
  char* place = arena_ + variable.offset;
  if (variable.block != block_) {
    variable.block = block_;
    show(place, bytes);
    std::memset(place, 0xff, bytes);
  }
  return place;
}

std::string BlockRunner::where(int thread) const {
  const Thread& t = threads_[thread];
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
    const Thread& thread = threads_[t];
    if (thread.state == State::kDone || thread.site.line == last.line) continue;
    failure_ += concat(named++ == 0 ? ": " : ", ", where(t));
    last = thread.site;
  }
}

void BlockRunner::set_failure(const Thread& thread, const std::string& what) {
  failure_ = concat(what, ": ", where(int(&thread - threads_)));
  if (thread.site.file != nullptr) {
    failure_ += concat(", at ", thread.site.file, ":", thread.site.line);
  }
}

void BlockRunner::stop(Site site, const char* what) {
  Thread& thread = current();
  thread.state = State::kStopped;
  thread.site = site;
  thread.failure = what;
  for (;;) yield();
}

namespace {

const char* const left_out = std::getenv("WICK_SIM_WITHOUT_BARRIER");
const char* const left_out_colon = left_out != nullptr ? std::strrchr(left_out, ':') : nullptr;
const int left_out_line = left_out_colon != nullptr ? std::atoi(left_out_colon + 1) : 0;

/// Whether this is the barrier that is to be left out; says so once.
bool is_left_out(Site site) {
  if (site.line != left_out_line) [[likely]]
    return false;
  const auto length = static_cast<size_t>(left_out_colon - left_out);
  const size_t whole = std::strlen(site.file);
  if (whole < length || std::memcmp(site.file + whole - length, left_out, length) != 0) {
    return false;
  }
  static bool said = false;
  if (!said) std::fprintf(stderr, "simulated GPU: no barrier at %s\n", left_out);
  said = true;
  return true;
}

}  // namespace

void sync_threads(Site site) {
  if (!is_left_out(site)) runner->wait_at_barrier(site, false);
}

int sync_threads_count(Site site, bool value) {
  runner->wait_at_barrier(site, value);
  return runner->current().count;
}

void sync_warp(Site site, unsigned mask) {
  if (!is_left_out(site)) runner->sync_warp(site, mask);
}

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

void trap(Site site, const char* what) { runner->stop(site, what); }

}  // namespace wick::sim
