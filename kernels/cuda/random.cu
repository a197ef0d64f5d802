#include "wick/kernels/random.h"

#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/random_math.h"

namespace wick::cuda {

namespace {

/// `kElements` neighbouring elements, a thread's share, are made of the words of kElements *
/// kWordsPerElement / 4 counters: make(words, elements) sets `elements`, which hold those of x
/// where there is an x.
template <class T, int kWordsPerElement, int kElements, bool kReadsX, class Make>
__global__ void random_kernel(Make make, RandomKey key, const T* x, T* y, int64_t n, bool packed) {
  if (key.base != nullptr) {
    key.seed += key.base[0];
    key.offset += key.base[1];
  }
  constexpr int kWords = kElements * kWordsPerElement;
  const int64_t step = global_threads() * kElements;
  for (int64_t i = global_thread() * kElements; i < n; i += step) {
    uint32_t words[kWords];
    for (int w = 0; w < kWords; w += 4) {
      const Uint32x4 four = random_words(key, (i * kWordsPerElement + w) / 4);
      words[w] = four.x;
      words[w + 1] = four.y;
      words[w + 2] = four.z;
      words[w + 3] = four.w;
    }
    Pack<T, kElements> elements;
    const bool whole = packed && i + kElements <= n;
    if constexpr (kReadsX) {
      if (whole) {
        elements = load_pack<kElements>(x + i);
      } else {
        for (int j = 0; j < kElements; ++j) elements[j] = x[i + j < n ? i + j : n - 1];
      }
    }
    make(words, elements);
    if (whole) {
      store_pack(y + i, elements);
    } else {
      for (int j = 0; j < kElements && i + j < n; ++j) y[i + j] = elements[j];
    }
  }
}

/// Runs random_kernel; x may be undefined.
template <class T, int kWordsPerElement, bool kReadsX, class Make>
void run(const char* name, const Make& make, RandomKey key, const View& x, const View& y) {
  constexpr int kLeast = 4 / kWordsPerElement;  // elements of one counter
  constexpr int kElements = kPackSize < T >> kLeast ? kPackSize<T> : kLeast;
  const int64_t n = y.numel();
  const bool packed = is_aligned(x.as<char>(), 16) && is_aligned(y.as<char>(), 16);
  launch(name, y.device, grid_for(y.device, n, kElements),
         random_kernel<T, kWordsPerElement, kElements, kReadsX, Make>, make, key, x.as<const T>(),
         y.as<T>(), n, packed);
}

template <class T>
struct MakeUniform {
  Scaled<T> scaled;
  template <int kCount>
  __device__ void operator()(const uint32_t* words, Pack<T, kCount>& out) const {
    for (int i = 0; i < kCount; ++i) {
      if constexpr (sizeof(T) == 8) {
        out[i] = scaled(unit_double(join_words(words[2 * i + 1], words[2 * i])));
      } else {
        out[i] = scaled(unit_float(words[i], kDigits<T>));
      }
    }
  }
};

template <class T>
struct MakeNormal {
  Accumulator<T> mean, stddev;
  template <int kCount>
  __device__ void operator()(const uint32_t* words, Pack<T, kCount>& out) const {
    for (int i = 0; i < kCount; i += 2) {
      const auto two = draw(words, i);
      out[i] = T(fused(two.first, stddev, mean));
      out[i + 1] = T(fused(two.second, stddev, mean));
    }
  }

 private:
  __device__ TwoNormals<Accumulator<T>> draw(const uint32_t* words, int i) const {
    if constexpr (sizeof(T) == 8) {
      return box_muller(join_words(words[2 * i + 1], words[2 * i]),
                        join_words(words[2 * i + 3], words[2 * i + 2]));
    } else {
      return box_muller(words[i], words[i + 1]);
    }
  }
};

struct MakeIntegers {
  int64_t low;
  uint64_t range;
  template <int kCount>
  __device__ void operator()(const uint32_t* words, Pack<int64_t, kCount>& out) const {
    for (int i = 0; i < kCount; ++i) {
      out[i] = integer_from(join_words(words[2 * i + 1], words[2 * i]), low, range);
    }
  }
};

template <class T>
struct MakeBernoulli {
  template <int kCount>
  __device__ void operator()(const uint32_t* words, Pack<T, kCount>& p) const {
    for (int i = 0; i < kCount; ++i) {
      p[i] = T(happens(words[i], static_cast<double>(p[i])) ? 1.0f : 0.0f);
    }
  }
};

template <class T>
struct MakeDropout {
  Accumulator<T> scale;
  uint32_t limit;
  template <int kCount>
  __device__ void operator()(const uint32_t* words, Pack<T, kCount>& x) const {
    for (int i = 0; i < kCount; ++i) {
      const Accumulator<T> kept = static_cast<Accumulator<T>>(x[i]) * scale;
      x[i] = T(words[i] < limit ? Accumulator<T>{0} : kept);
    }
  }
};

}  // namespace

void random_uniform(const View& y, RandomKey key, double low, double high) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    const MakeUniform<T> make{Scaled<T>(low, high)};
    run<T, sizeof(T) == 8 ? 2 : 1, false>("random_uniform", make, key, {}, y);
  });
}

void random_normal(const View& y, RandomKey key, double mean, double stddev) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    const MakeNormal<T> make{static_cast<Accumulator<T>>(mean),
                             static_cast<Accumulator<T>>(stddev)};
    run<T, sizeof(T) == 8 ? 2 : 1, false>("random_normal", make, key, {}, y);
  });
}

void random_integers(const View& y, RandomKey key, int64_t low, uint64_t range) {
  run<int64_t, 2, false>("random_integers", MakeIntegers{low, range}, key, {}, y);
}

void random_bernoulli(const View& p, const View& y, RandomKey key) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    run<T, 1, true>("random_bernoulli", MakeBernoulli<T>{}, key, p, y);
  });
}

void dropout(const View& x, const View& y, RandomKey key, double p) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    const MakeDropout<T> make{static_cast<Accumulator<T>>(1 / (1 - p)), words_of_events(p)};
    run<T, 1, true>("dropout", make, key, x, y);
  });
}

}  // namespace wick::cuda
