// Normalisations, at the sizes of ResNet-18 and of transformers. Batch norm reads what does not fit
// into the caches twice; its bytes count that once.
#include "wick/core/ops/norm.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/detail/norm_composed.h"
#include "wick/core/ops/elementwise.h"

namespace wick::bench::norm_rows {
namespace {

struct Images {
  const char* name;
  int64_t n, c, size;
};
constexpr Images kImages[] = {
    {"128x64x32x32", 128, 64, 32}, {"128x256x8x8", 128, 256, 8}, {"32x64x112x112", 32, 64, 112}};

Tensors with_parameters(const Tensor& x, int64_t width) {
  return {x, uniform({width}, 0.5, 1.5), normal({width})};
}

bool add_batch_norms(const Images& i) {
  const auto inputs = [i](const Setting& s) {
    return with_parameters(normal_images({s.some(i.n), i.c, i.size, i.size}), i.c);
  };
  add_op(
      {.name = concat("norm/batch_relu_", i.name),
       .inputs = inputs,
       .call = [](const Tensors& x) { return Tensors{batch_norm_relu(x[0], x[1], x[2], {}, {})}; },
       .plain =
           [](const Tensors& x) {
             return Tensors{relu(composed_batch_norm(x[0], x[1], x[2], 1e-5))};
           }});
  return add_op({.name = concat("norm/batch_add_relu_", i.name),
                 .inputs =
                     [i, inputs](const Setting& s) {
                       Tensors x = inputs(s);
                       x.push_back(normal_images({s.some(i.n), i.c, i.size, i.size}));
                       return x;
                     },
                 .call =
                     [](const Tensors& x) {
                       return Tensors{batch_norm_add_relu(x[0], x[3], x[1], x[2], {}, {})};
                     },
                 .plain =
                     [](const Tensors& x) {
                       return Tensors{relu(composed_batch_norm(x[0], x[1], x[2], 1e-5) + x[3])};
                     },
                 .dtypes = {kFloat32}});
}

[[maybe_unused]] const bool kBatch[] = {add_batch_norms(kImages[0]), add_batch_norms(kImages[1]),
                                        add_batch_norms(kImages[2])};

[[maybe_unused]] const bool kLayer = add_op(
    {.name = "norm/layer_4096",
     .inputs =
         [](const Setting& s) {
           return with_parameters(normal({s.some(4096), 4096}), 4096);
         },
     .call = [](const Tensors& x) { return Tensors{layer_norm(x[0], {4096}, x[1], x[2])}; },
     .plain =
         [](const Tensors& x) { return Tensors{composed_layer_norm(x[0], 1, x[1], x[2], 1e-5)}; }});

[[maybe_unused]] const bool kAddLayer =
    add_op({.name = "norm/add_layer_4096",
            .inputs =
                [](const Setting& s) {
                  Tensors x = with_parameters(normal({s.some(4096), 4096}), 4096);
                  x.push_back(normal({s.some(4096), 4096}));
                  return x;
                },
            .call =
                [](const Tensors& x) {
                  const SumAndNorm both = add_layer_norm(x[0], x[3], {4096}, x[1], x[2]);
                  return Tensors{both.sum, both.y};
                },
            .plain =
                [](const Tensors& x) {
                  const Tensor sum = x[0] + x[3];
                  return Tensors{sum, composed_layer_norm(sum, 1, x[1], x[2], 1e-5)};
                }});

[[maybe_unused]] const bool kSmallLayer = add_op(
    {.name = "norm/layer_768",
     .inputs =
         [](const Setting& s) {
           return with_parameters(normal({s.some(16384), 768}), 768);
         },
     .call = [](const Tensors& x) { return Tensors{layer_norm(x[0], {768}, x[1], x[2])}; },
     .plain =
         [](const Tensors& x) { return Tensors{composed_layer_norm(x[0], 1, x[1], x[2], 1e-5)}; }});

[[maybe_unused]] const bool kRms = add_op(
    {.name = "norm/rms_4096",
     .inputs =
         [](const Setting& s) {
           return Tensors{normal({s.some(4096), 4096}), uniform({4096}, 0.5, 1.5)};
         },
     .call = [](const Tensors& x) { return Tensors{rms_norm(x[0], {4096}, x[1])}; },
     .plain = [](const Tensors& x) { return Tensors{composed_rms_norm(x[0], 1, x[1], 1e-6)}; }});

[[maybe_unused]] const bool kGroup = add_op(
    {.name = "norm/group_8_of_64",
     .inputs =
         [](const Setting& s) {
           return with_parameters(normal_images({s.some(128), 64, 32, 32}), 64);
         },
     .call = [](const Tensors& x) { return Tensors{group_norm(x[0], 8, x[1], x[2])}; },
     .plain =
         [](const Tensors& x) { return Tensors{composed_group_norm(x[0], 8, x[1], x[2], 1e-5)}; }});

}  // namespace
}  // namespace wick::bench::norm_rows
