#include "wick/data/check_images.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "wick/core/base/check.h"
#include "wick/data/sha256.h"

namespace wick::data {

namespace {

struct Found {
  Sha256::Digest digest{};  // of the stored bytes, if they could be read
  bool read = false;
  std::string reason;  // why it is bad
};

// The images to train on and then those to test with, as one row.
class Checker {
 public:
  explicit Checker(const LabelledImages& images)
      : images_(images), found_(static_cast<size_t>(images.train->size() + images.test->size())) {}

  void run(int workers, const std::function<void(int64_t)>& progress) {
    const auto work = [&] {
      try {
        while (true) {
          const size_t i = next_.fetch_add(1);
          if (i >= found_.size()) return;
          check(i);
          if (!progress) continue;
          const std::lock_guard lock(mutex_);
          progress(++done_);
        }
      } catch (...) {  // out of memory, or from `progress`
        const std::lock_guard lock(mutex_);
        error_ = std::current_exception();
        next_ = found_.size();
      }
    };
    {
      std::vector<std::jthread> threads;
      // With fewer threads than asked for it takes longer, and that is all.
      try {
        for (int i = 1; i < workers; ++i) threads.emplace_back(work);
      } catch (const std::system_error&) {
      }
      work();
    }
    if (error_) std::rethrow_exception(error_);
  }

  CheckReport report() const {
    CheckReport report;
    report.images = static_cast<int64_t>(found_.size());
    report.counts.resize(images_.train->class_names().size());
    std::map<Sha256::Digest, std::vector<size_t>> same;
    for (size_t i = 0; i < found_.size(); ++i) {
      const auto [source, index] = place(i);
      CheckReport::Count& count = report.counts[static_cast<size_t>(source->label(index))];
      ++(source == images_.train.get() ? count.train : count.test);
      if (!found_[i].reason.empty()) report.bad.push_back({source->name(index), found_[i].reason});
      if (found_[i].read) same[found_[i].digest].push_back(i);
    }
    std::vector<std::vector<size_t>> groups;
    for (auto& [digest, group] : same) {
      if (group.size() > 1) groups.push_back(std::move(group));
    }
    std::sort(groups.begin(), groups.end());
    for (const std::vector<size_t>& group : groups) {
      report.duplicates.emplace_back();
      for (const size_t i : group) {
        const auto [source, index] = place(i);
        const char* split = source == images_.train.get() ? "train" : "test";
        const std::string name = source->name(index);
        report.duplicates.back().push_back(
            name.find('/') == std::string::npos ? concat(split, " ", name) : name);
      }
    }
    return report;
  }

 private:
  std::pair<const ImageSource*, int64_t> place(size_t i) const {
    const auto index = static_cast<int64_t>(i), train = images_.train->size();
    if (index < train) return {images_.train.get(), index};
    return {images_.test.get(), index - train};
  }

  void check(size_t i) {
    const auto [source, index] = place(i);
    Found& found = found_[i];
    std::string buffer;
    Image image;
    try {
      const StoredImage stored = source->read(index, buffer);
      Sha256 sha;
      sha.update(stored.bytes.data(), stored.bytes.size());
      found.digest = sha.digest();
      found.read = true;
      if (stored.channels == 0) decode_image(stored.bytes, source->name(index), image);
      source->confirm();
    } catch (const Error& error) {
      found.reason = error.what();
    }
  }

  const LabelledImages& images_;
  std::vector<Found> found_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  int64_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

CheckReport check_images(const LabelledImages& images, int workers,
                         const std::function<void(int64_t)>& progress) {
  WICK_CHECK(workers >= 1 && workers <= 1024, "check images: wrong number of workers: got ",
             workers, ", expected 1 to 1024");
  Checker checker(images);
  checker.run(workers, progress);
  return checker.report();
}

}  // namespace wick::data
