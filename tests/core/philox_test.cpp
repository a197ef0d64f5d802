#include "wick/core/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace wick {
namespace {

// Known answers of the Random123 library (kat_vectors, philox4x32 10). They are checked by the
// compiler too, which shows that the generator works in constant expressions.
static_assert(philox4x32(Uint32x4{0, 0, 0, 0}, Uint32x2{0, 0}) ==
              Uint32x4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});

TEST(Philox, GivesRandom123KnownAnswers) {
  const uint32_t all = 0xffffffffu;
  EXPECT_EQ(philox4x32(Uint32x4{all, all, all, all}, Uint32x2{all, all}),
            (Uint32x4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(Uint32x4{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       Uint32x2{0xa4093822, 0x299f31d0}),
            (Uint32x4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SequenceAndOffsetFillTheCounterAsCurandDoes) {
  const Uint32x4 counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  EXPECT_EQ(philox4x32(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u),
            philox4x32(counter, Uint32x2{0xa4093822, 0x299f31d0}));
}

TEST(Philox, StreamWalksTheWordsInOrder) {
  PhiloxStream stream(42, 7);
  for (uint64_t block = 0; block < 3; ++block) {
    const Uint32x4 words = philox4x32(42, 7, block);
    for (const uint32_t word : {words.x, words.y, words.z, words.w}) EXPECT_EQ(stream.next(), word);
  }
}

TEST(Philox, UniformsStayBelowOneAndReachBothEnds) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(0xffffffffu), 1.0f - 0x1p-24f);
  EXPECT_EQ(uniform_double(0, 0), 0.0);
  EXPECT_EQ(uniform_double(0xffffffffu, 0xffffffffu), 1.0 - 0x1p-53);
  EXPECT_EQ(uniform_below(0, 10), 0u);
  EXPECT_EQ(uniform_below(0xffffffffu, 10), 9u);
}

TEST(Philox, UniformsAreSpreadEvenly) {
  constexpr int kDraws = 64000, kCells = 64;
  std::vector<int> counts(kCells);
  PhiloxStream stream(1, 2);
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const float u = stream.uniform();
    ++counts[static_cast<size_t>(u * kCells)];
    sum += static_cast<double>(u);
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - kDraws / kCells, 2);
  chi_square /= static_cast<double>(kDraws) / kCells;
  EXPECT_LT(chi_square, 103.0);  // 63 degrees of freedom: exceeded by one generator in a thousand
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
}

TEST(Philox, BetweenIncludesBothEnds) {
  PhiloxStream stream(3, 0);
  bool low = false, high = false;
  for (int i = 0; i < 200; ++i) {
    const int value = stream.between(-2, 2);
    ASSERT_GE(value, -2);
    ASSERT_LE(value, 2);
    low |= value == -2;
    high |= value == 2;
  }
  EXPECT_TRUE(low && high);
}

}  // namespace
}  // namespace wick
