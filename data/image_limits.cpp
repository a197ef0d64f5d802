#include <atomic>
#include <ctime>

#include "wick/core/base/check.h"
#include "wick/data/detail/decode_time.h"
#include "wick/data/image_io.h"

namespace wick::data {

namespace {

std::atomic<int64_t> most_pixels{ImageLimits().pixels};
std::atomic<double> most_seconds{ImageLimits().seconds};

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void set_image_limits(const ImageLimits& limits) {
  WICK_CHECK(limits.pixels >= 1 && limits.pixels <= int64_t{1} << 40,
             "image limits: wrong number of pixels: got ", limits.pixels, ", expected 1 to 2^40");
  WICK_CHECK(limits.seconds >= 0, "image limits: wrong time: got ", limits.seconds,
             ", expected 0 or more seconds");
  most_pixels = limits.pixels;
  most_seconds = limits.seconds;
}

ImageLimits image_limits() { return {most_pixels, most_seconds}; }

DecodeTime::DecodeTime() : most_(image_limits().seconds) {
  if (most_ > 0) end_ = thread_seconds() + most_;
}

bool DecodeTime::look() {
  passed_ = 0;
  return most_ > 0 && thread_seconds() > end_;
}

}  // namespace wick::data
