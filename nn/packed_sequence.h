#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wick/core/tensor.h"

// Batches of sequences of several lengths, as torch.nn.utils.rnn has them: padded to the longest,
// or packed, so that recurrent layers compute no padding. T: the longest length, B: how many
// sequences; *: any axes. Gradients pass through all of these.
namespace wick::nn {

/// Sequences as recurrent layers take them, the longest first: the rows of the first time step,
/// then those of the second, and so on.
struct PackedSequence {
  Tensor data;                            // [sum of lengths, *]
  std::vector<int64_t> batch_sizes;       // [T]: how many sequences have a t-th step
  std::vector<int64_t> sorted_indices;    // [B]: which sequence is the k-th; empty: the k-th is
  std::vector<int64_t> unsorted_indices;  // [B]: which place sequence k has; empty: the k-th

  /// The same sequences with other data, of as many rows.
  PackedSequence with(const Tensor& other) const {
    return {other, batch_sizes, sorted_indices, unsorted_indices};
  }
  PackedSequence to(Device device) const { return with(data.to(device)); }
  PackedSequence to(Dtype dtype) const { return with(data.to(dtype)); }
};

/// What pad_packed_sequence returns: sequences padded to one length, and the length of each without
/// its padding.
struct PaddedSequence {
  Tensor data;                   // [T, B, *], or [B, T, *]
  std::vector<int64_t> lengths;  // [B]
};

/// `input` [T, B, *] ([B, T, *] with `batch_first`) without what is beyond each sequence's length,
/// of which there are B, 1 to T each. Error, with `enforce_sorted`, unless they fall from the first
/// to the last; else they are sorted, and layers give states in the order of `input`.
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);

/// The inverse: `padding_value` beyond each sequence's length, and up to `total_length` steps where
/// that is given. Error if it is less than the longest length.
PaddedSequence pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                   double padding_value = 0,
                                   std::optional<int64_t> total_length = {});

/// Where the padding of a shorter sequence is.
enum class PaddingSide : uint8_t { kRight, kLeft };

/// Sequences [length, *], which agree but for their lengths, as one tensor [T, B, *] ([B, T, *]
/// with `batch_first`). Error for no sequence.
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false,
                    double padding_value = 0, PaddingSide padding_side = PaddingSide::kRight);

/// The inverse: sequence k is the first lengths[k] steps.
std::vector<Tensor> unpad_sequence(const Tensor& padded, const std::vector<int64_t>& lengths,
                                   bool batch_first = false);

/// Sequences [length, *] packed. `enforce_sorted`: as of pack_padded_sequence.
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);

/// The inverse, in the order of what was packed.
std::vector<Tensor> unpack_sequence(const PackedSequence& sequence);

}  // namespace wick::nn
