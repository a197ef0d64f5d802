#pragma once

#include "wick/kernels/cpu/convolution_patches.h"

namespace wick::WICK_ISA {

/// How a group's weights lie in memory: from one channel that is summed over to the next, from one
/// column of the results to the next, from one element of the kernel to the next.
struct WeightSteps {
  int64_t inner, column, element, group;
};

/// Weights that are packed into panels, as tiles multiply them.
template <class S>
struct ConvolutionWeights {
  using T = UnitOf<S>;

  const S* data;
  WeightSteps steps;
  int64_t channels, outputs;  // of a group
  int64_t kernel_columns;

  /// The weights of one line of patches for up to kTileColumns results from `column` on.
  WICK_INLINE void pack(const Patches<S>& patches, int64_t group, int64_t column, int64_t line,
                        T* to) const {
    const int64_t width = smaller(kTileColumns<T>, outputs - column);
    const S* const from = data + group * steps.group + column * steps.column;
    const int64_t taps = patches.taps_per_line();
    if (channels % kPerUnit<S> != 0) return pack_odd(patches, from, line, width, to);
    const int64_t units = channels / kPerUnit<S>;
    for (int64_t tap = 0; tap < taps; ++tap, to += units * kTileColumns<T>) {
      const S* const element =
          from + patches.kernel_element(line, tap, kernel_columns) * steps.element;
      if constexpr (kPerUnit<S> == 1) {
        pack_columns(element, steps.inner, steps.column, channels, width, to);
      } else if (steps.inner == 1) {
        pack_columns(reinterpret_cast<const T*>(element), 1, steps.column / 2, units, width, to);
      } else {
        pack_pairs(element, units, width, to);
      }
    }
  }

 private:
  // Pairs of channels whose columns are neighbours. AVX2 computes none by pairs.
  WICK_INLINE void pack_pairs([[maybe_unused]] const S* from, [[maybe_unused]] int64_t units,
                              [[maybe_unused]] int64_t width, [[maybe_unused]] T* to) const {
#ifdef __AVX512F__
    if constexpr (kPerUnit<S> == 2) {
      for (int64_t u = 0; u < units; ++u, from += 2 * steps.inner, to += kTileColumns<T>) {
        interleave_pairs(from, from + steps.inner, width, to);
      }
    }
#endif
  }

  // Pairs that reach from one element of the kernel to the next.
  WICK_INLINE void pack_odd(const Patches<S>& patches, const S* from, int64_t line, int64_t width,
                            T* to) const {
    S* pairs = reinterpret_cast<S*>(to);
    for (int64_t k = 0; k < patches.line_units() * kPerUnit<S>; ++k) {
      const bool is_padding = k >= patches.line_size();
      const int64_t element =
          is_padding ? 0 : patches.kernel_element(line, k / channels, kernel_columns);
      const S* const row = from + element * steps.element + k % channels * steps.inner;
      for (int64_t j = 0; j < width; ++j) {
        pairs[(k / kPerUnit<S> * kTileColumns<T> + j) * kPerUnit<S> + k % kPerUnit<S>] =
            is_padding ? S(0.0f) : row[j * steps.column];
      }
    }
  }
};

}  // namespace wick::WICK_ISA
