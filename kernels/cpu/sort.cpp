#include "wick/kernels/sort.h"

#include "wick/core/base/parallel.h"

namespace wick::WICK_ISA {

namespace {

struct Entry {
  uint64_t key;
  int64_t index;
};

// A number that is smaller for elements that come earlier, and how many of its bytes are used.
template <class T>
WICK_INLINE uint64_t ascending_key(T x) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<uint64_t>(x);
  } else if constexpr (dtype_of<T> == Dtype::kInt64) {
    return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
  } else if constexpr (dtype_of<T> == Dtype::kInt32) {
    return static_cast<uint32_t>(x) ^ uint32_t { 1 } << 31;
  } else if constexpr (sizeof(T) == 8) {
    if (x != x) return ~uint64_t{0};
    const uint64_t bits = __builtin_bit_cast(uint64_t, x + 0.0);
    return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
  } else {
    const float value = static_cast<float>(x);
    if (value != value) return 0xffffffffu;
    const uint32_t bits = __builtin_bit_cast(uint32_t, value + 0.0f);
    return bits >> 31 != 0 ? ~bits : bits | uint32_t{1} << 31;
  }
}
template <class T>
inline constexpr int kKeyBytes = sizeof(T) == 2 ? 4 : sizeof(T);
template <class T>
WICK_INLINE uint64_t key_of(T x, bool descending) {
  const uint64_t key = ascending_key(x);
  return descending ? ~key : key;
}

void insertion_sort(Entry* entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Entry moved = entries[i];
    int64_t j = i;
    for (; j > 0 && entries[j - 1].key > moved.key; --j) entries[j] = entries[j - 1];
    entries[j] = moved;
  }
}

// Sorts by one byte of the key after the other, the least first. Returns where the result is.
Entry* radix_sort(Entry* entries, Entry* other, int64_t n, int bytes) {
  for (int byte = 0; byte < bytes; ++byte) {
    const int shift = 8 * byte;
    int64_t starts[256] = {};
    for (int64_t i = 0; i < n; ++i) ++starts[entries[i].key >> shift & 0xff];
    if (starts[entries[0].key >> shift & 0xff] == n) continue;
    int64_t total = 0;
    for (int64_t& start : starts) {
      const int64_t count = start;
      start = total;
      total += count;
    }
    for (int64_t i = 0; i < n; ++i) other[starts[entries[i].key >> shift & 0xff]++] = entries[i];
    Entry* const swapped = entries;
    entries = other;
    other = swapped;
  }
  return entries;
}

template <class T>
void sort_row(const T* x, T* values, int64_t* indices, Entry* scratch, int64_t n, bool descending) {
  for (int64_t i = 0; i < n; ++i) scratch[i] = {key_of(x[i], descending), i};
  const Entry* sorted = scratch;
  if (n <= 32) {
    insertion_sort(scratch, n);
  } else {
    sorted = radix_sort(scratch, scratch + n, n, kKeyBytes<T>);
  }
  for (int64_t i = 0; i < n; ++i) {
    indices[i] = sorted[i].index;
    values[i] = x[sorted[i].index];
  }
}

template <class T>
void top_of_row(const T* x, T* values, int64_t* indices, int64_t n, int64_t k, bool largest) {
  Entry best[kMaxTopk];
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t key = key_of(x[i], largest);
    if (count == k && key >= best[k - 1].key) continue;
    int64_t j = count < k ? count++ : k - 1;
    for (; j > 0 && best[j - 1].key > key; --j) best[j] = best[j - 1];
    best[j] = {key, i};
  }
  for (int64_t i = 0; i < k; ++i) {
    indices[i] = best[i].index;
    values[i] = x[best[i].index];
  }
}

}  // namespace

void sort_rows(const View& x, const View& values, const View& indices, const View& scratch,
               bool descending) {
  const int64_t rows = x.shape[0], n = x.shape[1];
  if (rows * n == 0) return;
  const int64_t chunk = (rows + scratch.shape[0] - 1) / scratch.shape[0];
  visit_dtype(x.dtype, [&]<class T>(Type<T>) {
    parallel_chunks(rows, chunk, [&](int64_t worker, int64_t begin, int64_t end) {
      Entry* const entries = static_cast<Entry*>(scratch.data) + 2 * n * worker;
      for (int64_t row = begin * n; row < end * n; row += n) {
        sort_row(x.as<const T>() + row, values.as<T>() + row, indices.as<int64_t>() + row, entries,
                 n, descending);
      }
    });
  });
}

void topk_rows(const View& x, const View& values, const View& indices, bool largest) {
  const int64_t rows = x.shape[0], n = x.shape[1], k = values.shape[1];
  if (rows * k == 0) return;
  visit_dtype(x.dtype, [&]<class T>(Type<T>) {
    parallel_for(rows, 1 + 16384 / n, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        top_of_row(x.as<const T>() + row * n, values.as<T>() + row * k,
                   indices.as<int64_t>() + row * k, n, k, largest);
      }
    });
  });
}

}  // namespace wick::WICK_ISA
