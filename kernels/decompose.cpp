#include "wick/kernels/decompose.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/parallel.h"

namespace wick {

namespace {

// A matrix whose rows are `stride` elements apart.
template <class T>
struct Matrix {
  T* data;
  int64_t rows, columns, stride;
  T* row(int64_t i) const { return data + i * stride; }
  T& at(int64_t i, int64_t j) const { return data[i * stride + j]; }
};

template <class T>
Matrix<T> matrix(const View& x, int64_t index) {
  const int64_t rows = x.shape[1], columns = x.shape[2];
  return {x.as<T>() + index * rows * columns, rows, columns, columns};
}

// y += factor x
template <class T>
void add_scaled(T* y, T factor, const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// In eight sums side by side.
template <class T>
double dot(const T* x, const T* y, int64_t n) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
    }
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return std::accumulate(sums, sums + kLanes, 0.0);
}

template <class T>
void swap_rows(const Matrix<T>& a, int64_t i, int64_t j) {
  if (i != j) std::swap_ranges(a.row(i), a.row(i) + a.columns, a.row(j));
}

// Calls each(T(), i) for each matrix of `x`.
template <class Each>
void for_each_matrix(const View& x, const Each& each) {
  if (x.numel() == 0) return;
  parallel_for(x.shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (x.dtype == Dtype::kFloat64) {
        each(double(), i);
      } else {
        each(float(), i);
      }
    }
  });
}

template <class T>
void solve_row(const Matrix<T>& a, const Matrix<T>& x, int64_t i, int64_t begin, int64_t end,
               bool unit) {
  for (int64_t j = begin; j < end; ++j) add_scaled(x.row(i), -a.at(i, j), x.row(j), x.columns);
  if (unit) return;
  for (int64_t k = 0; k < x.columns; ++k) x.at(i, k) /= a.at(i, i);
}

template <class T>
bool cholesky_of(const Matrix<T>& a) {
  const int64_t n = a.rows;
  std::vector<T> column(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    std::fill(a.row(k) + k + 1, a.row(k) + n, T(0));
    if (!(a.at(k, k) > 0)) return false;
    const T root = std::sqrt(a.at(k, k));
    a.at(k, k) = root;
    for (int64_t i = k + 1; i < n; ++i) {
      column[static_cast<size_t>(i)] = a.at(i, k) /= root;
      add_scaled(a.row(i) + k + 1, -a.at(i, k), column.data() + k + 1, i - k);
    }
  }
  return true;
}

template <class T>
void lu_of(const Matrix<T>& a, int32_t* pivots) {
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      if (std::fabs(a.at(i, k)) > std::fabs(a.at(best, k))) best = i;
    }
    pivots[k] = static_cast<int32_t>(best + 1);
    swap_rows(a, k, best);
    if (a.at(k, k) == 0) continue;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      a.at(i, k) /= a.at(k, k);
      add_scaled(a.row(i) + k + 1, -a.at(i, k), a.row(k) + k + 1, a.columns - k - 1);
    }
  }
}

// x -= factor v (v^T x) for the rows of x from `first` and its columns from `column`.
template <class T>
void reflect(const Matrix<T>& x, const std::vector<T>& v, T factor, int64_t first, int64_t column) {
  const int64_t width = x.columns - column;
  std::vector<T> products(static_cast<size_t>(width));
  for (int64_t i = first; i < x.rows; ++i) {
    add_scaled(products.data(), v[static_cast<size_t>(i - first)], x.row(i) + column, width);
  }
  for (int64_t i = first; i < x.rows; ++i) {
    add_scaled(x.row(i) + column, -factor * v[static_cast<size_t>(i - first)], products.data(),
               width);
  }
}

// By Householder's reflections, with LAPACK's signs.
template <class T>
void qr_of(const Matrix<T>& a, const Matrix<T>& q, const Matrix<T>& r) {
  const int64_t count = r.rows;
  std::vector<std::vector<T>> directions;
  std::vector<T> factors;
  for (int64_t k = 0; k < count; ++k) {
    std::vector<T> v;
    for (int64_t i = k; i < a.rows; ++i) v.push_back(a.at(i, k));
    const auto rest = static_cast<int64_t>(v.size()) - 1;
    T factor = 0;
    if (const double below = dot(v.data() + 1, v.data() + 1, rest); below > 0) {
      const auto head = static_cast<double>(v[0]);
      const double norm = std::sqrt(head * head + below), beta = head < 0 ? norm : -norm;
      factor = static_cast<T>((beta - head) / beta);
      for (int64_t i = 1; i <= rest; ++i) v[static_cast<size_t>(i)] /= static_cast<T>(head - beta);
    }
    v[0] = 1;
    reflect(a, v, factor, k, k);
    directions.push_back(std::move(v));
    factors.push_back(factor);
  }
  for (int64_t i = 0; i < count; ++i) {
    std::fill(r.row(i), r.row(i) + i, T(0));
    std::copy(a.row(i) + i, a.row(i) + a.columns, r.row(i) + i);
  }
  std::fill(q.data, q.data + q.rows * q.columns, T(0));
  for (int64_t i = 0; i < count; ++i) q.at(i, i) = 1;
  for (int64_t k = count - 1; k >= 0; --k) {
    reflect(q, directions[static_cast<size_t>(k)], factors[static_cast<size_t>(k)], k, k);
  }
}

// The cosine and sine that make the symmetric [[p, g], [g, q]] diagonal.
struct Rotation {
  double cosine, sine;
};
Rotation diagonalizing(double p, double q, double g) {
  const double ratio = (q - p) / (2 * g);
  const double tangent = (ratio < 0 ? -1 : 1) / (std::fabs(ratio) + std::hypot(1, ratio));
  const double cosine = 1 / std::hypot(1, tangent);
  return {cosine, cosine * tangent};
}

template <class T>
void rotate(T* x, T* y, int64_t n, const Rotation& r) {
  const T c = static_cast<T>(r.cosine), s = static_cast<T>(r.sine);
  for (int64_t i = 0; i < n; ++i) {
    const T before = x[i];
    x[i] = c * before - s * y[i];
    y[i] = s * before + c * y[i];
  }
}

constexpr int kMostSweeps = 60;

// Turns the rows of x until they are orthogonal, and those of `turned` along with them: the
// one-sided method of Jacobi (Hestenes, "Inversion of Matrices by Biorthogonalization", 1958).
template <class T>
bool make_rows_orthogonal(const Matrix<T>& x, const Matrix<T>& turned) {
  constexpr double kSmall = std::numeric_limits<T>::epsilon();
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool is_done = true;
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = i + 1; j < x.rows; ++j) {
        const double p = dot(x.row(i), x.row(i), x.columns);
        const double q = dot(x.row(j), x.row(j), x.columns);
        const double g = dot(x.row(i), x.row(j), x.columns);
        if (!std::isfinite(p + q)) return false;
        if (g == 0 || std::fabs(g) <= kSmall * std::sqrt(p) * std::sqrt(q)) continue;
        is_done = false;
        const Rotation r = diagonalizing(p, q, g);
        rotate(x.row(i), x.row(j), x.columns, r);
        rotate(turned.row(i), turned.row(j), turned.columns, r);
      }
    }
    if (is_done) return true;
  }
  return true;  // as near as rounding lets it come
}

// Makes row `index` of x a unit vector orthogonal to the rows before it.
template <class T>
void complete_row(const Matrix<T>& x, int64_t index) {
  T* const row = x.row(index);
  for (int64_t unit = 0; unit < x.columns; ++unit) {
    std::fill(row, row + x.columns, T(0));
    row[unit] = 1;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t i = 0; i < index; ++i) {
        add_scaled(row, static_cast<T>(-dot(row, x.row(i), x.columns)), x.row(i), x.columns);
      }
    }
    const double norm = std::sqrt(dot(row, row, x.columns));
    if (norm < 0.5 / std::sqrt(static_cast<double>(x.columns))) continue;
    for (int64_t k = 0; k < x.columns; ++k) row[k] /= static_cast<T>(norm);
    return;
  }
}

// x [k, n] = turned^T diag(s) rows, with k <= n: `rows` replaces x. `s` falls.
template <class T>
bool svd_of_rows(std::vector<T>& x, int64_t k, int64_t n, std::vector<T>& turned, T* s) {
  const Matrix<T> rows{x.data(), k, n, n}, by{turned.data(), k, k, k};
  for (int64_t i = 0; i < k; ++i) by.at(i, i) = 1;
  if (!make_rows_orthogonal(rows, by)) return false;
  for (int64_t i = 0; i < k; ++i) {
    s[i] = static_cast<T>(std::sqrt(dot(rows.row(i), rows.row(i), n)));
  }
  for (int64_t i = 0; i < k; ++i) {
    const int64_t best = std::max_element(s + i, s + k) - s;
    std::swap(s[i], s[best]);
    swap_rows(rows, i, best);
    swap_rows(by, i, best);
  }
  for (int64_t i = 0; i < k; ++i) {
    if (s[i] > std::numeric_limits<T>::epsilon() * s[0]) {
      for (int64_t j = 0; j < n; ++j) rows.at(i, j) /= s[i];
    } else {
      complete_row(rows, i);
    }
  }
  return true;
}

template <class T>
void copy_transposed(const Matrix<T>& from, T* to) {
  for (int64_t i = 0; i < from.rows; ++i) {
    for (int64_t j = 0; j < from.columns; ++j) to[j * from.rows + i] = from.at(i, j);
  }
}

template <class T>
bool svd_of(const Matrix<T>& a, T* u, T* s, T* vt) {
  const int64_t k = std::min(a.rows, a.columns), n = std::max(a.rows, a.columns);
  const bool is_tall = a.rows > a.columns;
  std::vector<T> x(a.data, a.data + a.rows * a.columns), turned(static_cast<size_t>(k * k));
  if (is_tall) copy_transposed(a, x.data());
  if (!svd_of_rows(x, k, n, turned, s)) return false;
  // Wide: a = turned^T s x. Tall: its transpose.
  copy_transposed(is_tall ? Matrix<T>{x.data(), k, n, n} : Matrix<T>{turned.data(), k, k, k}, u);
  const std::vector<T>& right = is_tall ? turned : x;
  std::copy(right.begin(), right.end(), vt);
  return true;
}

// The two-sided method of Jacobi, on the lower triangle of `a` mirrored; rows of v are
// eigenvectors.
template <class T>
bool eigh_of(const Matrix<T>& a, T* w, const Matrix<T>& v) {
  const int64_t n = a.rows;
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) a.at(i, j) = a.at(j, i);
    norm += dot(a.row(i), a.row(i), n);
    v.at(i, i) = 1;
  }
  if (!std::isfinite(norm)) return false;
  const double small = std::numeric_limits<T>::epsilon() * std::sqrt(norm) / static_cast<double>(n);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool is_done = true;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        if (std::fabs(static_cast<double>(a.at(i, j))) <= small) continue;
        is_done = false;
        const Rotation r = diagonalizing(a.at(i, i), a.at(j, j), a.at(i, j));
        rotate(a.row(i), a.row(j), n, r);
        for (int64_t k = 0; k < n; ++k) rotate(&a.at(k, i), &a.at(k, j), 1, r);
        a.at(i, j) = a.at(j, i) = 0;
        rotate(v.row(i), v.row(j), n, r);
      }
    }
    if (is_done) break;
  }
  for (int64_t i = 0; i < n; ++i) w[i] = a.at(i, i);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t best = std::min_element(w + i, w + n) - w;
    std::swap(w[i], w[best]);
    swap_rows(v, i, best);
  }
  return true;
}

[[noreturn]] void refuse_values(const char* op, int64_t index) {
  throw Error(concat(op, ": matrix ", index, " of the batch holds NaN, infinity or numbers whose ",
                     "squares overflow"));
}

template <class T>
std::vector<T> copy_of(const Matrix<T>& x) {
  return {x.data, x.data + x.rows * x.columns};
}

}  // namespace

void solve_triangular(const View& a, const View& x, bool upper, bool unit) {
  for_each_matrix(x, [&](auto number, int64_t index) {
    using T = decltype(number);
    const Matrix<T> triangle = matrix<T>(a, index), y = matrix<T>(x, index);
    const int64_t n = triangle.rows;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step;
      solve_row(triangle, y, i, upper ? i + 1 : 0, upper ? n : i, unit);
    }
  });
}

int64_t cholesky_in_place(const View& a) {
  std::atomic<int64_t> first = a.shape[0];
  for_each_matrix(a, [&](auto number, int64_t index) {
    using T = decltype(number);
    if (cholesky_of(matrix<T>(a, index))) return;
    int64_t seen = first;
    while (index < seen && !first.compare_exchange_weak(seen, index)) {
    }
  });
  return first == a.shape[0] ? -1 : first.load();
}

void lu_in_place(const View& a, const View& pivots) {
  for_each_matrix(a, [&](auto number, int64_t index) {
    using T = decltype(number);
    lu_of(matrix<T>(a, index), pivots.as<int32_t>() + index * pivots.shape[1]);
  });
}

void qr_decompose(const View& a, const View& q, const View& r) {
  for_each_matrix(a, [&](auto number, int64_t index) {
    using T = decltype(number);
    const Matrix<T> given = matrix<T>(a, index);
    std::vector<T> copy = copy_of(given);
    qr_of({copy.data(), given.rows, given.columns, given.columns}, matrix<T>(q, index),
          matrix<T>(r, index));
  });
}

void svd_decompose(const View& a, const View& u, const View& s, const View& vt) {
  std::atomic<int64_t> failed = -1;
  for_each_matrix(a, [&](auto number, int64_t index) {
    using T = decltype(number);
    if (!svd_of(matrix<T>(a, index), matrix<T>(u, index).data, s.as<T>() + index * s.shape[1],
                matrix<T>(vt, index).data)) {
      failed = index;
    }
  });
  if (failed >= 0) refuse_values("svd", failed);
}

void eigh_decompose(const View& a, const View& w, const View& v) {
  std::atomic<int64_t> failed = -1;
  for_each_matrix(a, [&](auto number, int64_t index) {
    using T = decltype(number);
    const Matrix<T> given = matrix<T>(a, index);
    std::vector<T> copy = copy_of(given), rows(copy.size());
    const Matrix<T> vectors{rows.data(), given.rows, given.rows, given.rows};
    if (!eigh_of({copy.data(), given.rows, given.rows, given.rows}, w.as<T>() + index * w.shape[1],
                 vectors)) {
      failed = index;
    }
    copy_transposed(vectors, matrix<T>(v, index).data);
  });
  if (failed >= 0) refuse_values("eigh", failed);
}

}  // namespace wick
