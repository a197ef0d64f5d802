#include "wick/kernels/index.h"

#include "wick/core/base/parallel.h"

namespace wick::WICK_ISA {

namespace {

constexpr int64_t kGrain = 32768;  // elements worth a thread

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t grain_of(int64_t elements_per_item) {
  return ceil_div(kGrain, elements_per_item > 0 ? elements_per_item : 1);
}

// Elements are moved as plain words of their size.
template <class Visit>
WICK_INLINE void visit_words(Dtype dtype, Visit&& visit) {
  switch (size_of(dtype)) {
    case 1: return visit(Type<uint8_t>{});
    case 2: return visit(Type<uint16_t>{});
    case 4: return visit(Type<uint32_t>{});
    default: return visit(Type<uint64_t>{});
  }
}

// Types that sums are kept in.
template <class Visit>
WICK_INLINE void visit_sums(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::kFloat64: return visit(Type<double>{});
    case Dtype::kFloat32: return visit(Type<float>{});
    case Dtype::kInt64: return visit(Type<int64_t>{});
    case Dtype::kInt32: return visit(Type<int32_t>{});
    case Dtype::kUint8: return visit(Type<uint8_t>{});
    default: unsupported_dtype(dtype);
  }
}

// The rows of `from` that `at` names, one after the other. Row `skip` is taken as zeros.
template <class T>
void copy_rows(const T* from, const int64_t* at, int64_t count, int64_t inner, T* to,
               int64_t skip) {
  if (inner == 1) {
    for (int64_t k = 0; k < count; ++k) to[k] = at[k] == skip ? T(0) : from[at[k]];
    return;
  }
  for (int64_t k = 0; k < count; ++k, to += inner) {
    const T* const row = from + at[k] * inner;
    if (at[k] == skip) {
      for (int64_t j = 0; j < inner; ++j) to[j] = 0;
    } else if (inner < 16) {
      for (int64_t j = 0; j < inner; ++j) to[j] = row[j];
    } else {
      __builtin_memcpy(to, row, static_cast<size_t>(inner) * sizeof(T));
    }
  }
}

template <class T>
void select_rows(const View& x, const View& index, const View& y, int64_t skip) {
  const int64_t n = x.shape[1], inner = x.shape[2], count = index.shape[0];
  const int64_t* at = index.as<const int64_t>();
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t first = row % count;
      const int64_t some = end - row < count - first ? end - row : count - first;
      const T* from = x.as<const T>() + row / count * n * inner;
      copy_rows(from, at + first, some, inner, y.as<T>() + row * inner, skip);
      row += some;
    }
  };
  parallel_for(x.shape[0] * count, grain_of(inner), rows);
}

// Each thread owns a range of y's rows and takes from x what falls into it, in x's order.
template <class T>
void add_rows(const View& y, const View& index, const View& x, int64_t skip) {
  const int64_t n = y.shape[1], inner = y.shape[2], count = index.shape[0];
  const int64_t* const at = index.as<const int64_t>();
  T* const all = y.as<T>();
  const T* const added_rows = x.as<const T>();
  const auto rows = [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t outer = row / n, first = row % n;
      const int64_t last = end - row < n - first ? first + end - row : n;
      for (int64_t k = 0; k < count; ++k) {
        if (at[k] < first || at[k] >= last || at[k] == skip) continue;
        T* to = all + (outer * n + at[k]) * inner;
        const T* from = added_rows + (outer * count + k) * inner;
        for (int64_t j = 0; j < inner; ++j) to[j] = static_cast<T>(to[j] + from[j]);
      }
      row += last - first;
    }
  };
  const int64_t total = y.shape[0] * n;
  const int64_t added = y.shape[0] * count * inner;
  parallel_for(total, added < kGrain ? total : ceil_div(total, ceil_div(added, kGrain)), rows);
}

// Calls body(a's element that index names, b's element) for each element of index, where `a` is
// walked along `axis` by index and `b` as index itself is. Elements that differ only on `axis` are
// visited in order, by one thread: only they can name the same element of `a`.
template <class T, class Body>
WICK_INLINE void for_each_indexed(const View& a, const View& index, const View& b, int axis,
                                  const Body& body) {
  if (index.numel() == 0) return;
  const int rank = index.rank();
  const int line = axis == rank - 1 ? -1 : rank - 1;  // the axis of the inner loop
  const int64_t length = line < 0 ? 1 : index.shape[line];
  const int64_t piece = line < 0 ? 1 : 256, pieces = ceil_div(length, piece);
  const int64_t a_line = line < 0 ? 0 : a.strides[line];
  const int64_t i_line = line < 0 ? 0 : index.strides[line];
  const int64_t b_line = line < 0 ? 0 : b.strides[line];
  int64_t outer = 1;
  for (int i = 0; i < rank; ++i) outer *= i == axis || i == line ? 1 : index.shape[i];

  const auto items = [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % pieces * piece;
      const int64_t some = length - first < piece ? length - first : piece;
      int64_t left = item / pieces;
      T* at_a = a.as<T>() + first * a_line;
      const int64_t* at_i = index.as<const int64_t>() + first * i_line;
      T* at_b = b.as<T>() + first * b_line;
      for (int i = rank - 1; i >= 0; --i) {
        if (i == axis || i == line) continue;
        const int64_t where = left % index.shape[i];
        left /= index.shape[i];
        at_a += where * a.strides[i];
        at_i += where * index.strides[i];
        at_b += where * b.strides[i];
      }
      const int64_t count = index.shape[axis];
      const int64_t a_step = a.strides[axis], i_step = index.strides[axis];
      const int64_t b_step = b.strides[axis];
      if (line < 0) {
        for (int64_t k = 0; k < count; ++k) body(at_a[at_i[k * i_step] * a_step], at_b[k * b_step]);
        continue;
      }
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t j = 0; j < some; ++j) {
          body(at_a[at_i[j * i_line] * a_step + j * a_line], at_b[j * b_line]);
        }
        at_i += i_step;
        at_b += b_step;
      }
    }
  };
  parallel_for(outer * pieces, grain_of(index.shape[axis] * (line < 0 ? 1 : piece)), items);
}

}  // namespace

void index_select(const View& x, const View& index, const View& y, int64_t skip) {
  visit_words(x.dtype, [&]<class T>(Type<T>) { select_rows<T>(x, index, y, skip); });
}

void index_add(const View& y, const View& index, const View& x, int64_t skip) {
  visit_sums(y.dtype, [&]<class T>(Type<T>) { add_rows<T>(y, index, x, skip); });
}

void gather(const View& x, const View& index, const View& y, int axis) {
  visit_words(x.dtype, [&]<class T>(Type<T>) {
    for_each_indexed<T>(x, index, y, axis, [](const T& from, T& to) { to = from; });
  });
}

void scatter(const View& y, const View& index, const View& x, int axis) {
  visit_words(y.dtype, [&]<class T>(Type<T>) {
    for_each_indexed<T>(y, index, x, axis, [](T& to, const T& from) { to = from; });
  });
}

void scatter_add(const View& y, const View& index, const View& x, int axis) {
  visit_sums(y.dtype, [&]<class T>(Type<T>) {
    for_each_indexed<T>(y, index, x, axis,
                        [](T& to, const T& from) { to = static_cast<T>(to + from); });
  });
}

void count_nonzero(const View& mask, const View& starts) {
  const uint8_t* set = mask.as<const uint8_t>();
  int64_t* count = starts.as<int64_t>();
  const int64_t n = mask.numel(), chunks = starts.numel() - 1;
  parallel_for(chunks, grain_of(kNonzeroChunk), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const int64_t first = c * kNonzeroChunk;
      const int64_t last = n - first < kNonzeroChunk ? n : first + kNonzeroChunk;
      int64_t some = 0;
      for (int64_t i = first; i < last; ++i) some += set[i];
      count[c + 1] = some;
    }
  });
  count[0] = 0;
  for (int64_t c = 0; c < chunks; ++c) count[c + 1] += count[c];
}

void nonzero(const View& mask, const View& starts, const View& y) {
  const uint8_t* set = mask.as<const uint8_t>();
  const int rank = mask.rank();
  const int64_t n = mask.numel(), chunks = starts.numel() - 1;
  parallel_for(chunks, grain_of(kNonzeroChunk), [&](int64_t begin, int64_t end) {
    int64_t* out = y.as<int64_t>() + starts.as<int64_t>()[begin] * rank;
    const int64_t last = n < end * kNonzeroChunk ? n : end * kNonzeroChunk;
    for (int64_t i = begin * kNonzeroChunk; i < last; ++i) {
      if (set[i] == 0) continue;
      int64_t left = i;
      for (int axis = rank - 1; axis >= 0; --axis) {
        out[axis] = left % mask.shape[axis];
        left /= mask.shape[axis];
      }
      out += rank;
    }
  });
}

void triangle(const View& x, const View& y, int64_t diagonal, bool upper) {
  const int64_t rows = x.shape[1], columns = x.shape[2];
  visit_words(x.dtype, [&]<class T>(Type<T>) {
    parallel_for(x.shape[0] * rows, grain_of(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.as<const T>() + row * columns;
        T* to = y.as<T>() + row * columns;
        int64_t cut = row % rows + diagonal + (upper ? 0 : 1);
        cut = cut < 0 ? 0 : cut > columns ? columns : cut;
        for (int64_t j = 0; j < cut; ++j) to[j] = upper ? T{0} : from[j];
        for (int64_t j = cut; j < columns; ++j) to[j] = upper ? from[j] : T{0};
      }
    });
  });
}

}  // namespace wick::WICK_ISA
