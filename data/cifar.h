#pragma once

#include <string>

#include "wick/data/image_set.h"

namespace wick::data {

/// Reads CIFAR-10's binary version (50,000 + 10,000 colour images of 32x32, ten classes):
/// data_batch_1.bin to data_batch_5.bin or test_batch.bin, in `data_dir` or its sub-folder
/// cifar-10-batches-bin. Format: www.cs.toronto.edu/~kriz/cifar.html.
ImageSet read_cifar10(const std::string& data_dir, Split split);

/// Reads CIFAR-100's binary version with its hundred fine labels: train.bin or test.bin, in
/// `data_dir` or its sub-folder cifar-100-binary.
ImageSet read_cifar100(const std::string& data_dir, Split split);

}  // namespace wick::data
