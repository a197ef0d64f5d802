#pragma once

#include <map>
#include <string>

#include "wick/core/tensor.h"

namespace wick {

using TensorMap = std::map<std::string, Tensor>;
using TextMap = std::map<std::string, std::string>;

/// Writes tensors of any dtype, layout and device as a safetensors file, in one step: on failure
/// (which throws Error naming the file) the file is as it was before. The default metadata is what
/// PyTorch's tools write and expect.
void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const TextMap& metadata = {{"format", "pt"}});

/// Reads a safetensors file onto the CPU, and its metadata if asked for. The file is not trusted:
/// whatever deviates from the format throws Error naming the file and what is wrong, before memory
/// for the tensors is taken. Peak memory is the size of the file and at most 16 MB. Limits: a
/// header of 100,000,000 bytes, 65,536 tensors of rank 8 or less, names and texts of 1 MiB.
TensorMap load_safetensors(const std::string& path, TextMap* metadata = nullptr);

}  // namespace wick
