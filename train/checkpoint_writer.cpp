#include "wick/train/detail/checkpoint_writer.h"

#include <algorithm>
#include <utility>

#include "wick/core/autograd.h"
#include "wick/core/base/detail/start_thread.h"
#include "wick/core/base/threads.h"

namespace wick::train {

CheckpointWriter::~CheckpointWriter() {
  if (!thread_) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_->join();
}

void CheckpointWriter::trust(int64_t step) {
  const std::lock_guard lock(mutex_);
  good_.insert(step);
  if (good_.size() >= static_cast<size_t>(keep_)) good_.erase(good_.begin());
}

void CheckpointWriter::start(const std::string& folder, const Checkpoint& checkpoint,
                             const std::set<int64_t>& kept) {
  wait();
  auto job = std::make_unique<Job>();
  job->folder = folder;
  job->kept = kept;
  job->checkpoint.step = checkpoint.step;
  const NoGrad no_grad;
  for (const auto& [part, tensors] : checkpoint.parts) {
    for (const auto& [name, x] : tensors) job->add(part, name, x.detach());
    job->checkpoint.parts[part];  // be it empty
  }
  for (auto& entry : job->ready) entry.second.record();  // behind all copies
  if (!thread_) thread_ = wick::detail::start_thread("checkpoint", [this] { work(); });
  const std::lock_guard lock(mutex_);
  job->kept.insert(good_.begin(), good_.end());
  job_ = std::move(job);
  changed_.notify_all();
}

void CheckpointWriter::Job::add(const std::string& part, const std::string& name, const Tensor& x) {
  const Device device = x.device();
  Tensor copy;
  try {
    copy = x.clone();
  } catch (const OutOfMemory&) {
    if (device.is_cpu()) throw;
    copy = x.to(kCpu);  // which waits for the device
  }
  checkpoint.parts[part].emplace(name, copy);
  const bool is_known = std::any_of(ready.begin(), ready.end(),
                                    [&](const auto& entry) { return entry.first == device; });
  if (copy.device().is_cuda() && !is_known) ready.emplace_back(device, Event(device));
}

std::vector<CheckpointWriter::Written> CheckpointWriter::take_written() {
  const std::lock_guard lock(mutex_);
  return std::exchange(written_, {});
}

void CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return job_ == nullptr; });
}

void CheckpointWriter::work() {
  set_num_threads(1);  // the others compute meanwhile
  const NoGrad no_grad;
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_stopping_ || job_ != nullptr; });
    if (job_ == nullptr) return;
    Job& job = *job_;
    lock.unlock();
    Written written{.step = job.checkpoint.step};
    try {
      bring_to_host(job);
      written.path = CheckpointStore(job.folder, keep_).save(job.checkpoint, job.kept);
    } catch (const DeviceError& error) {
      written.error = error.what();
      written.broken = std::current_exception();
    } catch (const std::exception& error) {
      written.error = error.what();
    }
    if (written.error.empty()) trust(written.step);
    lock.lock();
    written_.push_back(std::move(written));
    job_.reset();
    changed_.notify_all();
  }
}

// From the device to the host, beside what the device computes meanwhile.
void CheckpointWriter::bring_to_host(Job& job) {
  for (const auto& entry : job.ready) {
    const StreamGuard guard(stream_from_pool(entry.first));
    const Stream stream = current_stream(entry.first);
    entry.second.block(stream);
    for (auto& [part, tensors] : job.checkpoint.parts) {
      for (auto& [name, x] : tensors) {
        if (x.device() != entry.first) continue;
        x.record_stream(stream);
        x = x.to(kCpu);
      }
    }
  }
}

}  // namespace wick::train
