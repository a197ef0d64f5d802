#pragma once

#include "wick/kernels/cpu/product.h"

namespace wick::WICK_ISA {

/// Does what follows the sums (Product::finish) to a block of `rows` x `columns` results, which are
/// stored and in the cache. `at`: where the block begins, in elements of c.
void finish_block(const cpu::Product& p, int64_t at, int64_t rows, int64_t columns);

}  // namespace wick::WICK_ISA
