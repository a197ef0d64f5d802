#pragma once

#include <string>
#include <vector>

#include "wick/kernels/elementwise_chain.h"

// A chain of elementwise functors as the source of one kernel.
namespace wick::cuda {

/// Its function, and its threads' elements at a time.
inline constexpr const char* kChainFunction = "wick_chain";
int chain_pack(const ElementwiseChain& chain, const View* views);

/// What the kernel is compiled from. It depends on the steps, and on the views' dtypes and on which
/// of them are dense; not on shapes, and not on the functors' attributes. All functors must have a
/// source.
std::string chain_source(const ElementwiseChain& chain, const View* views);

/// The kernel's one argument: a ChainPlaces and the functors.
std::vector<uint64_t> chain_arguments(const ElementwiseChain& chain, const View* views);

}  // namespace wick::cuda
