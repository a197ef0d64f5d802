// Matrix products alone, of the shapes that networks have: squares, layers of perceptrons and
// transformers, few rows or columns, convolutions as products, attention's heads.
#include "wick/bench/kernels/row.h"
#include "wick/core/ops/matmul.h"

namespace wick::bench::product_rows {
namespace {

struct Size {
  const char* layout;  // N: rows lie in one piece; T: columns
  int64_t batch, m, n, k;
};
constexpr Size kSizes[] = {
    // Squares.
    {"NN", 1, 16, 16, 16},
    {"NT", 1, 32, 32, 32},
    {"NN", 1, 64, 64, 64},
    {"NN", 1, 128, 128, 128},
    {"NN", 1, 256, 256, 256},
    {"NT", 1, 512, 512, 512},
    {"NN", 1, 1024, 1024, 1024},
    {"NT", 1, 1024, 1024, 1024},
    {"TN", 1, 1024, 1024, 1024},
    {"NN", 1, 1023, 1021, 1019},
    {"NN", 1, 2048, 2048, 2048},
    // Layers of perceptrons: forward, to the input's gradient, to the weight's.
    {"NT", 1, 128, 512, 784},
    {"NN", 1, 128, 784, 512},
    {"TN", 1, 512, 784, 128},
    {"NT", 1, 128, 512, 512},
    {"NT", 1, 128, 10, 512},
    {"NN", 1, 128, 512, 10},
    {"TN", 1, 10, 512, 128},
    {"NT", 1, 64, 512, 784},
    {"NT", 1, 64, 10, 512},
    {"NT", 1, 1000, 256, 784},
    {"NT", 1, 32, 1000, 512},
    {"NT", 1, 32, 1000, 2048},
    {"TN", 1, 1000, 2048, 32},
    {"NT", 1, 256, 1024, 1024},
    // Transformers.
    {"NT", 1, 1024, 3072, 768},
    {"NT", 1, 1024, 768, 3072},
    {"NN", 1, 1024, 768, 3072},
    {"TN", 1, 768, 3072, 1024},
    {"NT", 1, 1024, 768, 768},
    {"NT", 1, 1576, 2304, 768},
    // Few rows or columns.
    {"NT", 1, 1, 4096, 4096},
    {"NN", 1, 1, 4096, 4096},
    {"NT", 1, 1, 512, 512},
    {"NN", 1, 1, 512, 512},
    {"NN", 1, 4096, 1, 4096},
    {"TN", 1, 4096, 1, 512},
    {"NT", 1, 2, 1024, 1024},
    {"NT", 1, 4, 2048, 2048},
    {"NT", 1, 8, 4096, 4096},
    {"NN", 1, 8, 1024, 1024},
    {"NT", 1, 16, 1024, 1024},
    {"NN", 1, 1024, 4, 1024},
    {"NN", 1, 4096, 16, 256},
    // Short sums.
    {"NN", 1, 4096, 32, 32},
    {"NN", 1, 1024, 1024, 4},
    {"NT", 1, 1024, 1024, 16},
    // Convolutions as products.
    {"NT", 1, 16384, 64, 576},
    {"TN", 1, 64, 576, 16384},
    {"NN", 1, 16384, 576, 64},
    {"NT", 1, 3136, 128, 1152},
    {"NT", 1, 2048, 256, 2304},
    {"TN", 1, 256, 2304, 2048},
    {"NT", 1, 25088, 64, 147},
    // Attention's heads.
    {"NT", 48, 197, 197, 64},
    {"NN", 48, 197, 64, 197},
    {"TN", 48, 197, 64, 197},
    {"NT", 16, 512, 512, 64},
    {"NN", 8, 1024, 64, 1024},
    {"NN", 512, 16, 16, 32},
};

// [batch, rows, columns] with rows or columns in one piece.
Tensor operand(char layout, int64_t batch, int64_t rows, int64_t columns) {
  const bool by_rows = layout == 'N';
  const Tensor x = normal(by_rows ? Shape{batch, rows, columns} : Shape{batch, columns, rows});
  return batch == 1 ? x.squeeze(0) : x;
}

bool add_product(const Size& z) {
  const auto inputs = [z](const Setting& s) {
    const int64_t batch = s.some(z.batch), m = z.batch == 1 ? s.some(z.m) : z.m;
    return Tensors{operand(z.layout[0], batch, m, z.k), operand(z.layout[1], batch, z.k, z.n)};
  };
  const auto call = [z](const Tensors& x) {
    const Tensor a = z.layout[0] == 'N' ? x[0] : x[0].transpose(-2, -1);
    return Tensors{matmul(a, z.layout[1] == 'N' ? x[1] : x[1].transpose(-2, -1))};
  };
  const std::string batch = z.batch > 1 ? concat(z.batch, "x") : "";
  return add_op({.name = concat("product/", z.layout, "_", batch, z.m, "x", z.n, "x", z.k),
                 .inputs = inputs,
                 .call = call,
                 .backward = false,
                 .check_shrink = 16});
}

[[maybe_unused]] const bool kAll = [] {
  for (const Size& size : kSizes) add_product(size);
  return true;
}();

}  // namespace
}  // namespace wick::bench::product_rows
