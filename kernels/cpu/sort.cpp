#include "wick/kernels/sort.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/sort_key.h"

namespace wick::WICK_ISA {

namespace {

using Entry = SortEntry;

template <class T>
inline constexpr int kKeyBytes = sizeof(T) == 2 ? 4 : sizeof(T);

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
  for (int64_t i = 0; i < n; ++i) scratch[i] = {sort_key(x[i], descending), i};
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
    const uint64_t key = sort_key(x[i], largest);
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

void sort_rows(const View& x, const View& values, const View& indices, bool descending,
               Workspace& workspace) {
  const int64_t rows = x.shape[0], n = x.shape[1];
  if (rows * n == 0) return;
  const int64_t threads = num_threads() < rows ? num_threads() : rows;
  const int64_t chunk = (rows + threads - 1) / threads;
  const size_t entries_each = static_cast<size_t>(2 * n);
  Entry* const scratch = static_cast<Entry*>(
      workspace.allocate(static_cast<size_t>(threads) * entries_each * sizeof(Entry)));
  visit_dtype(x.dtype, [&]<class T>(Type<T>) {
    parallel_chunks(rows, chunk, [&](int64_t worker, int64_t begin, int64_t end) {
      Entry* const entries = scratch + 2 * n * worker;
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
