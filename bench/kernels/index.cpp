// Gathering and scattering: embeddings, chosen rows, masks, triangles.
#include "wick/core/ops/index.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"

namespace wick::bench::index_rows {
namespace {

// Rows that are read and written; the table is as large as it is, and mostly not touched.
double rows_moved(const Tensors& x) {
  const double row = bytes_of(x[0]) / static_cast<double>(x[0].size(0));
  return bytes_of(x[1]) + 2 * row * static_cast<double>(x[1].numel());
}

[[maybe_unused]] const bool kEmbedding =
    add_op({.name = "index/embedding_50304x768",
            .inputs =
                [](const Setting& s) {
                  const int64_t words = s.some(50304);
                  return Tensors{normal({words, 768}), indices({s.some(8), 1024}, words)};
                },
            .call = [](const Tensors& x) { return Tensors{embedding(x[0], x[1])}; },
            .plain =
                [](const Tensors& x) {
                  const Tensor rows = index_select(x[0], 0, x[1].flatten());
                  return Tensors{rows.reshape({x[1].size(0), x[1].size(1), 768})};
                },
            .bytes = rows_moved});

[[maybe_unused]] const bool kIndexSelect = add_op(
    {.name = "index/index_select_rows",
     .inputs =
         [](const Setting& s) {
           return Tensors{normal({s.some(16384), 1024}), indices({s.some(8192)}, s.some(16384))};
         },
     .call = [](const Tensors& x) { return Tensors{index_select(x[0], 0, x[1])}; },
     .backward = false,
     .bytes = rows_moved});

[[maybe_unused]] const bool kIndexAdd =
    add_op({.name = "index/index_add_rows",
            .inputs =
                [](const Setting& s) {
                  const int64_t n = s.some(8192);
                  return Tensors{zeros({s.some(1024), 1024}), indices({n}, s.some(1024)),
                                 normal({n, 1024})};
                },
            .call = [](const Tensors& x) { return Tensors{index_add(x[0], 0, x[1], x[2])}; },
            .plain =
                [](const Tensors& x) {
                  const Tensor hits = one_hot(x[1], x[0].size(0)).to(kFloat64);
                  return Tensors{matmul(hits.t(), x[2])};
                },
            .backward = false,
            .dtypes = {kFloat32}});

[[maybe_unused]] const bool kGather =
    add_op({.name = "index/gather",
            .inputs =
                [](const Setting& s) {
                  const Shape shape{s.some(4096), 1024};
                  return Tensors{normal(shape), indices(shape, 1024)};
                },
            .call = [](const Tensors& x) { return Tensors{gather(x[0], 1, x[1])}; },
            .dtypes = {kFloat32}});

[[maybe_unused]] const bool kScatter =
    add_op({.name = "index/scatter",
            .inputs =
                [](const Setting& s) {
                  const Shape shape{s.some(4096), 1024};
                  return Tensors{normal(shape), indices(shape, 1024), normal(shape)};
                },
            .call = [](const Tensors& x) { return Tensors{scatter(x[0], 1, x[1], x[2])}; },
            .backward = false,
            .dtypes = {kFloat32}});

[[maybe_unused]] const bool kMasked =
    add_op({.name = "index/masked_select",
            .inputs =
                [](const Setting& s) {
                  return Tensors{normal({s.some(4096), 1024})};
                },
            .call = [](const Tensors& x) { return Tensors{masked_select(x[0], x[0] > 0)}; },
            .backward = false,
            .dtypes = {kFloat32}});

[[maybe_unused]] const bool kTriangle =
    add_op({.name = "index/tril",
            .inputs =
                [](const Setting& s) {
                  return Tensors{normal({s.some(64), 512, 512})};
                },
            .call = [](const Tensors& x) { return Tensors{tril(x[0])}; },
            .plain = [](const Tensors& x) { return Tensors{x[0] - triu(x[0], 1)}; },
            .backward = false});

}  // namespace
}  // namespace wick::bench::index_rows
