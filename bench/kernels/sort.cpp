// Sorting rows, and the largest elements of rows.
#include "wick/core/ops/sort.h"

#include "wick/bench/kernels/row.h"

namespace wick::bench::sort_rows {
namespace {

bool add_sort(const char* name, int64_t rows, int64_t columns,
              std::function<Tensors(const Tensors&)> call) {
  return add_op({.name = concat("sort/", name),
                 .inputs =
                     [=](const Setting& s) {
                       return Tensors{normal({s.some(rows), columns})};
                     },
                 .call = std::move(call),
                 .backward = false,
                 .dtypes = {kFloat32}});
}

Tensors both(const Sorted& sorted) { return {sorted.values, sorted.indices}; }

[[maybe_unused]] const bool kSorts[] = {
    add_sort("rows_of_1000", 4096, 1000, [](const Tensors& x) { return both(sort(x[0], 1)); }),
    add_sort("rows_of_50000", 64, 50000, [](const Tensors& x) { return both(sort(x[0], 1)); }),
    add_sort("argsort_rows_of_1000", 4096, 1000,
             [](const Tensors& x) { return Tensors{argsort(x[0], 1)}; }),
};

// What sort says of the same rows.
[[maybe_unused]] const bool kTopk =
    add_op({.name = "sort/top5_of_1000",
            .inputs =
                [](const Setting& s) {
                  return Tensors{normal({s.some(16384), 1000})};
                },
            .call = [](const Tensors& x) { return both(topk(x[0], 5, 1)); },
            .plain =
                [](const Tensors& x) {
                  const Sorted all = sort(x[0], 1, true);
                  return Tensors{all.values.narrow(1, 0, 5), all.indices.narrow(1, 0, 5)};
                },
            .backward = false});

}  // namespace
}  // namespace wick::bench::sort_rows
