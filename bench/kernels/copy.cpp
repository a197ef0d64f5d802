// Copies: clones, casts, changes of layout, and what is made of them: cat, split, pad, repeat.
#include "wick/bench/kernels/row.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/slice.h"

namespace wick::bench::copy_rows {
namespace {

Tensors matrix(const Setting& s) { return {normal({s.some(8192), 2048})}; }
Tensors images(const Setting& s) { return {normal({s.some(256), 64, 32, 32})}; }

bool add_copy(const char* name, Tensors (*inputs)(const Setting&), Tensors (*call)(const Tensors&),
              const std::vector<Dtype>& dtypes = {kFloat32, kBFloat16}) {
  return add_op({.name = concat("copy/", name),
                 .inputs = inputs,
                 .call = call,
                 .backward = false,
                 .dtypes = dtypes});
}

[[maybe_unused]] const bool kCopies[] = {
    add_copy("clone", matrix, [](const Tensors& x) { return Tensors{x[0].clone()}; }),
    add_copy("transpose", matrix, [](const Tensors& x) { return Tensors{x[0].t().contiguous()}; }),
    add_copy(
        "to_channels_last", images,
        [](const Tensors& x) { return Tensors{x[0].contiguous(MemoryFormat::kChannelsLast)}; }),
    add_copy("every_second_column", matrix,
             [](const Tensors& x) { return Tensors{x[0].slice(1, 0, 2048, 2).contiguous()}; }),
    add_copy("cat", matrix,
             [](const Tensors& x) {
               return Tensors{cat({x[0], x[0]}, 1)};
             }),
    add_copy("split", matrix,
             [](const Tensors& x) {
               Tensors parts;
               for (const Tensor& part : x[0].split(512, 1)) parts.push_back(part.contiguous());
               return parts;
             }),
    add_copy("pad", images,
             [](const Tensors& x) {
               return Tensors{pad(x[0], {1, 1, 1, 1})};
             }),
    add_copy("repeat", matrix,
             [](const Tensors& x) {
               return Tensors{repeat(x[0], {1, 2})};
             }),
    add_copy("roll", matrix, [](const Tensors& x) { return Tensors{roll(x[0], 1, 0)}; }),
    add_copy("flip", matrix, [](const Tensors& x) { return Tensors{flip(x[0], {1})}; }),
};

[[maybe_unused]] const bool kToBFloat16 = add_op(
    {.name = "copy/to_bfloat16_and_back",
     .inputs = matrix,
     .call = [](const Tensors& x) { return Tensors{x[0].to(kBFloat16).to(kFloat32)}; },
     .plain =
         [](const Tensors& x) { return Tensors{x[0].to(kFloat32).to(kBFloat16).to(kFloat64)}; },
     .backward = false,
     .dtypes = {kFloat32},
     .bytes = [](const Tensors& x) { return 3 * bytes_of(x); }});

// Fill and arange read nothing.
[[maybe_unused]] const bool kFill =
    add_op({.name = "copy/fill",
            .inputs = matrix,
            .call = [](const Tensors& x) { return Tensors{full_like(x[0], 3)}; },
            .backward = false,
            .bytes = [](const Tensors& x) { return bytes_of(x); }});

[[maybe_unused]] const bool kArange =
    add_op({.name = "copy/arange",
            .inputs = [](const Setting& s) { return Tensors{normal({s.some(1 << 24)})}; },
            .call =
                [](const Tensors& x) {
                  return Tensors{arange(0, x[0].numel(), 1, kInt64, x[0].device())};
                },
            .backward = false,
            .dtypes = {kFloat32},
            .bytes = [](const Tensors& x) { return 2 * bytes_of(x); }});

}  // namespace
}  // namespace wick::bench::copy_rows
