#include "wick/data/shapes10.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "wick/core/base/parallel.h"
#include "wick/core/base/philox.h"

#if defined(__SANITIZE_ADDRESS__)
#define WICK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WICK_SANITIZED 1
#endif
#endif

namespace wick::data {
namespace {

const ImageSet& train_set() {
  static const ImageSet set = shapes10(Split::kTrain);
  return set;
}
const ImageSet& test_set() {
  static const ImageSet set = shapes10(Split::kTest);
  return set;
}

// FNV-1a with 64 bits.
uint64_t hash(const std::vector<uint8_t>& bytes, uint64_t state = 0xcbf29ce484222325u) {
  for (const uint8_t byte : bytes) state = (state ^ byte) * 0x100000001b3u;
  return state;
}

TEST(Shapes10, BytesAreTheSameOnEveryMachine) {
  const uint64_t digest = hash(test_set().pixels, hash(train_set().pixels));
  EXPECT_EQ(digest, 0xcf05275ab88ab0eeu) << std::hex << digest;
}

TEST(Shapes10, ClassesHaveEqualParts) {
  for (const ImageSet* set : {&train_set(), &test_set()}) {
    EXPECT_EQ(set->pixels.size(), static_cast<size_t>(set->size() * 32 * 32 * 3));
    ASSERT_EQ(set->class_names.size(), 10u);
    for (uint8_t label = 0; label < 10; ++label) {
      EXPECT_EQ(std::count(set->labels.begin(), set->labels.end(), label), set->size() / 10);
    }
  }
  EXPECT_EQ(train_set().size(), 10000);
  EXPECT_EQ(test_set().size(), 2000);
}

TEST(Shapes10, NoImageComesTwice) {
  std::set<uint64_t> seen;
  for (const ImageSet* set : {&train_set(), &test_set()}) {
    for (int64_t i = 0; i < set->size(); ++i) {
      const uint8_t* first = set->image(i);
      seen.insert(hash({first, first + set->bytes_per_image()}));
    }
  }
  EXPECT_EQ(seen.size(), 12000u);
}

TEST(Shapes10, AnImageCanBeDrawnAlone) {
  std::vector<uint8_t> rgb(32 * 32 * 3);
  draw_shape(10007, rgb.data());
  EXPECT_TRUE(std::equal(rgb.begin(), rgb.end(), test_set().image(7)));
}

#ifndef WICK_SANITIZED

// Squared distance of two images.
int64_t distance(const uint8_t* a, const uint8_t* b, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t d = a[i] - b[i];
    sum += d * d;
  }
  return sum;
}

TEST(Shapes10, NearestNeighbourFailsOnAtLeastThirtyPercent) {
  const ImageSet &train = train_set(), &test = test_set();
  constexpr int64_t kTested = 1000;
  std::vector<uint8_t> correct(kTested);
  parallel_for(kTested, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t best = std::numeric_limits<int64_t>::max(), nearest = 0;
      for (int64_t j = 0; j < train.size(); ++j) {
        const int64_t d = distance(test.image(i), train.image(j), train.bytes_per_image());
        if (d < best) best = d, nearest = j;
      }
      const auto at = static_cast<size_t>(i);
      correct[at] = train.labels[static_cast<size_t>(nearest)] == test.labels[at];
    }
  });
  const double accuracy = std::accumulate(correct.begin(), correct.end(), 0.0) / kTested;
  EXPECT_LT(accuracy, 0.70);
  EXPECT_GT(accuracy, 0.15);  // well above chance: the images do show their class
}

// Ten linear scores per image, fitted by stochastic gradient descent on the cross entropy.
class LogisticRegression {
 public:
  void fit(const ImageSet& set, int epochs, float rate) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      PhiloxStream random(1, static_cast<uint64_t>(epoch));
      for (int64_t step = 0; step < set.size(); ++step) {
        const int64_t i = random.below(static_cast<uint32_t>(set.size()));
        load(set.image(i));
        std::array<float, 10> p = scores();
        const float top = *std::max_element(p.begin(), p.end());
        float total = 0;
        for (float& v : p) total += v = std::exp(v - top);
        for (size_t k = 0; k < 10; ++k) {
          const bool is_label = set.labels[static_cast<size_t>(i)] == k;
          const float step_size = rate * (p[k] / total - (is_label ? 1.0f : 0.0f));
          for (size_t j = 0; j < kInputs; ++j) weight_[k][j] -= step_size * input_[j];
        }
      }
    }
  }
  double accuracy(const ImageSet& set) {
    int64_t correct = 0;
    for (int64_t i = 0; i < set.size(); ++i) {
      load(set.image(i));
      const std::array<float, 10> s = scores();
      const auto best = std::max_element(s.begin(), s.end()) - s.begin();
      correct += best == set.labels[static_cast<size_t>(i)];
    }
    return static_cast<double>(correct) / static_cast<double>(set.size());
  }

 private:
  static constexpr size_t kInputs = 32 * 32 * 3 + 1;
  void load(const uint8_t* pixels) {
    for (size_t j = 0; j + 1 < kInputs; ++j) {
      input_[j] = (static_cast<float>(pixels[j]) - 128.0f) / 64.0f;
    }
    input_[kInputs - 1] = 1.0f;
  }
  std::array<float, 10> scores() const {
    std::array<float, 10> s{};
    for (size_t k = 0; k < 10; ++k) {
      float lanes[8] = {};
      for (size_t j = 0; j + 8 <= kInputs; j += 8) {
        for (size_t l = 0; l < 8; ++l) lanes[l] += weight_[k][j + l] * input_[j + l];
      }
      s[k] = std::accumulate(lanes, lanes + 8, weight_[k][kInputs - 1]);
    }
    return s;
  }

  std::array<std::array<float, kInputs>, 10> weight_{};
  std::array<float, kInputs> input_{};
};

TEST(Shapes10, LogisticRegressionFailsOnMoreThanHalf) {
  LogisticRegression model;
  model.fit(train_set(), 12, 1e-4f);
  model.fit(train_set(), 4, 2e-5f);
  EXPECT_GT(model.accuracy(train_set()), 0.20);  // it did learn what it can
  EXPECT_LT(model.accuracy(test_set()), 0.45);
}

#endif  // WICK_SANITIZED

}  // namespace
}  // namespace wick::data
