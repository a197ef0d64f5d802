#pragma once

#include <string>

// Machine code on the disk, so that a program compiles a kernel once and not once per run. The
// folder is $WICK_KERNEL_CACHE (none, if that is empty), else kernels/ in user_cache_folder(). A
// disk that is full, or that may not be written, is no error.
namespace wick::cuda {

/// The name that machine code is kept by: a digest of all that it follows from.
std::string kernel_key(const std::string& all);

/// What is kept by this name; "" if nothing is, or the file is damaged.
std::string read_kernel(const std::string& key);
void keep_kernel(const std::string& key, const std::string& code);

}  // namespace wick::cuda
