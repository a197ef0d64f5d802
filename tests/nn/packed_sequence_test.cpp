#include "wick/nn/packed_sequence.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/view.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::nn {
namespace {

using testing::error_of;
using Numbers = std::vector<float>;
using Counts = std::vector<int64_t>;

Numbers numbers(const Tensor& x) { return x.to_vector<float>(); }

// Sequence k is k0, k1, k2, ...
Tensor sequence(int64_t k, int64_t length) { return arange(10 * k, 10 * k + length, 1, kFloat32); }

TEST(PackedSequence, PacksWhatIsSorted) {
  const PackedSequence packed = pack_sequence({sequence(1, 3), sequence(2, 2), sequence(3, 2)});
  EXPECT_EQ(numbers(packed.data), (Numbers{10, 20, 30, 11, 21, 31, 12}));
  EXPECT_EQ(packed.batch_sizes, (Counts{3, 3, 1}));
  EXPECT_TRUE(packed.sorted_indices.empty());
}

TEST(PackedSequence, SortsAndPutsBack) {
  const std::vector<Tensor> given{sequence(1, 1), sequence(2, 3), sequence(3, 2), sequence(4, 3)};
  const PackedSequence packed = pack_sequence(given, false);
  EXPECT_EQ(packed.sorted_indices, (Counts{1, 3, 2, 0}));
  EXPECT_EQ(packed.unsorted_indices, (Counts{3, 0, 2, 1}));
  EXPECT_EQ(numbers(packed.data), (Numbers{20, 40, 30, 10, 21, 41, 31, 22, 42}));
  const std::vector<Tensor> back = unpack_sequence(packed);
  ASSERT_EQ(back.size(), given.size());
  for (size_t k = 0; k < back.size(); ++k) EXPECT_EQ(numbers(back[k]), numbers(given[k]));
}

TEST(PackedSequence, PadsOnEitherSide) {
  const std::vector<Tensor> given{sequence(1, 1), sequence(2, 3)};
  EXPECT_EQ(numbers(pad_sequence(given)), (Numbers{10, 20, 0, 21, 0, 22}));
  EXPECT_EQ(numbers(pad_sequence(given, true, -1)), (Numbers{10, -1, -1, 20, 21, 22}));
  EXPECT_EQ(numbers(pad_sequence(given, true, -1, PaddingSide::kLeft)),
            (Numbers{-1, -1, 10, 20, 21, 22}));
  EXPECT_EQ(pad_sequence({randn({2, 3, 4}), randn({5, 3, 4})}).shape(), (Shape{5, 2, 3, 4}));
  EXPECT_EQ(pad_sequence({zeros({0, 3}), zeros({2, 3})}, true).shape(), (Shape{2, 2, 3}));
}

TEST(PackedSequence, GoesThereAndBackInEveryLayout) {
  const Counts lengths{2, 4, 1};
  for (const bool batch_first : {false, true}) {
    const Tensor x = randn(batch_first ? Shape{3, 4, 2} : Shape{4, 3, 2});
    const PackedSequence packed = pack_padded_sequence(x, lengths, batch_first, false);
    EXPECT_EQ(packed.data.shape(), (Shape{7, 2}));
    const PaddedSequence padded = pad_packed_sequence(packed, batch_first, 9, 6);
    EXPECT_EQ(padded.lengths, lengths);
    EXPECT_EQ(padded.data.shape(), (batch_first ? Shape{3, 6, 2} : Shape{6, 3, 2}));
    const auto want = unpad_sequence(x, lengths, batch_first);
    const auto got = unpad_sequence(padded.data, lengths, batch_first);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_TRUE(eq(got[k], want[k]).all().item<bool>());
      const Tensor rest = padded.data.select(batch_first ? 0 : 1, static_cast<int64_t>(k))
                              .narrow(0, lengths[k], 6 - lengths[k]);
      EXPECT_TRUE(eq(rest, 9).all().item<bool>());
    }
  }
}

TEST(PackedSequence, PassesGradientsThrough) {
  const Tensor x = randn({3, 2, 2}).set_requires_grad();
  const PackedSequence packed = pack_padded_sequence(x, {3, 1});
  (pad_packed_sequence(packed).data * 2).sum().backward();
  EXPECT_EQ(numbers(x.grad().select(2, 0).contiguous()), (Numbers{2, 2, 2, 0, 2, 0}));
}

TEST(PackedSequence, SaysWhatDoesNotFit) {
  const Tensor x = randn({4, 2, 3});
  EXPECT_EQ(error_of([&] {
              pack_padded_sequence(x, {4, 0});
            }),
            "pack_padded_sequence: lengths: got 0 of sequence 1, expected 1 to 4");
  EXPECT_EQ(error_of([&] {
              pack_padded_sequence(x, {5, 1});
            }),
            "pack_padded_sequence: lengths: got 5 of sequence 0, expected 1 to 4");
  EXPECT_EQ(error_of([&] {
              pack_padded_sequence(x, {2, 3});
            }),
            "pack_padded_sequence: lengths must fall: got 3 of sequence 1 after 2, expected less, "
            "or enforce_sorted = false");
  EXPECT_EQ(error_of([&] { pack_padded_sequence(x, {4}); }),
            "pack_padded_sequence: lengths: got 1 for input [4, 2, 3], expected one for each "
            "sequence, and a sequence");
  EXPECT_EQ(error_of([&] { pack_padded_sequence(randn({4}), {4}); }),
            "pack_padded_sequence: input needs 2 axes or more: got shape [4]");
  EXPECT_EQ(error_of([] { pad_sequence({}); }),
            "pad_sequence: got no sequences, expected 1 or more");
  EXPECT_EQ(error_of([] {
              pack_sequence({randn({2, 3}), randn({1, 4})});
            }),
            "pack_sequence: sequences differ beyond their lengths: got [1, 4], expected [1, 3]");
  EXPECT_EQ(error_of([] {
              pack_sequence({randn({2}), randn({0})});
            }),
            "pack_sequence: lengths: got 0 of sequence 1, expected 1 to 2");
  PackedSequence packed = pack_padded_sequence(x, {4, 2});
  EXPECT_EQ(error_of([&] { pad_packed_sequence(packed, false, 0, 3); }),
            "pad_packed_sequence: total_length is too small: got 3, expected 4 or more");
  packed.batch_sizes = {1, 2};
  EXPECT_EQ(error_of([&] { pad_packed_sequence(packed); }),
            "PackedSequence: batch sizes must not grow: got 2 after 1, expected 1 to 1");
  packed.batch_sizes = {2, 2};
  EXPECT_EQ(error_of([&] { pad_packed_sequence(packed); }),
            "pad_packed_sequence: data does not fit batch sizes: got shape [6, 3], expected 4 "
            "rows");
  packed.batch_sizes = {2, 2, 1, 1};
  packed.unsorted_indices = {0, 7};
  EXPECT_EQ(error_of([&] { pad_packed_sequence(packed); }),
            "pad_packed_sequence: unsorted_indices: got 7, expected less than 2");
  EXPECT_EQ(error_of([&] {
              unpad_sequence(x, {5, 1});
            }),
            "unpad_sequence: lengths: got 5 of sequence 0, expected 0 to 4");
}

}  // namespace
}  // namespace wick::nn
