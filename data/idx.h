#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wick/data/image_set.h"

namespace wick::data {

/// The contents of an IDX file of unsigned bytes.
struct IdxArray {
  std::vector<int64_t> sizes;  // along each axis, slowest first
  std::vector<uint8_t> values;
};

/// Reads an IDX file, plain or gzip, of unsigned bytes along `rank` axes (1 to 4). The header is
/// checked against the file's size before memory is allocated. Format: yann.lecun.com/exdb/mnist.
IdxArray read_idx(const std::string& path, int rank);

/// Reads MNIST (60,000 + 10,000 grey images of 28x28) from its four IDX files under their usual
/// names, plain or gzip, in `data_dir` or its sub-folder mnist (or MNIST/raw).
ImageSet read_mnist(const std::string& data_dir, Split split);

/// Reads Fashion-MNIST, which has MNIST's form, from `data_dir` or its sub-folder fashion-mnist (or
/// FashionMNIST/raw).
ImageSet read_fashion_mnist(const std::string& data_dir, Split split);

}  // namespace wick::data
