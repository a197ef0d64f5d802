#include "wick/data/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "wick/core/base/check.h"
#include "wick/data/detail/streams.h"

namespace wick::data {

namespace {

// Orders of more samples than this are calculated and not listed.
constexpr int64_t kMostListed = int64_t{1} << 20;

PhiloxStream order_stream(uint64_t seed, int64_t epoch, int64_t part = 0) {
  return data_stream(seed, epoch, kStreamsOfOrders + static_cast<uint64_t>(part));
}

// Four words for each place of an epoch.
PhiloxStream place_stream(uint64_t seed, int64_t epoch, int64_t place) {
  constexpr int kBits = 31;
  const auto at = static_cast<uint64_t>(place);
  return data_stream(seed, epoch, kStreamsOfOrders + (at >> kBits),
                     at & ((uint64_t{1} << kBits) - 1));
}

uint64_t next_64(PhiloxStream& random) {
  const uint64_t high = random.next();
  return high << 32 | random.next();
}

// An order whose places are found one by one by `Find`, a function of the place.
template <class Find>
class FoundOrder final : public Order {
 public:
  explicit FoundOrder(Find find) : find_(std::move(find)) {}
  void at(int64_t first, std::span<int64_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = find_(first + static_cast<int64_t>(i));
  }

 private:
  Find find_;
};

template <class Find>
std::shared_ptr<const Order> found_order(Find find) {
  return std::make_shared<const FoundOrder<Find>>(std::move(find));
}

int64_t one_of(const Order& order, int64_t place) {
  int64_t sample = 0;
  order.at(place, {&sample, 1});
  return sample;
}

// A permutation of 0 to n - 1: both halves of a number's bits take turns in being changed by the
// other, which can be undone and so maps no two to one; what falls outside is sent on until it
// falls inside.
class FeistelPermutation {
 public:
  FeistelPermutation(int64_t n, PhiloxStream random) : n_(static_cast<uint64_t>(n)) {
    const int bits = std::bit_width(n_ - 1);
    low_bits_ = bits / 2;
    high_bits_ = bits - low_bits_;
    for (uint64_t& key : keys_) key = next_64(random);
  }
  int64_t operator()(int64_t place) const {
    auto x = static_cast<uint64_t>(place);
    do {
      x = permute(x);
    } while (x >= n_);
    return static_cast<int64_t>(x);
  }

 private:
  // The finaliser of SplitMix64. Steele, Lea, Flood: Fast splittable pseudorandom number generators
  // (OOPSLA 2014).
  static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  uint64_t permute(uint64_t x) const {
    const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1;
    const uint64_t high_mask = (uint64_t{1} << high_bits_) - 1;
    uint64_t low = x & low_mask, high = x >> low_bits_;
    for (size_t i = 0; i < std::size(keys_); i += 2) {
      high ^= mix(low + keys_[i]) & high_mask;
      low ^= mix(high + keys_[i + 1]) & low_mask;
    }
    return high << low_bits_ | low;
  }

  uint64_t n_;
  int low_bits_, high_bits_;
  uint64_t keys_[10];
};

std::shared_ptr<const Order> random_permutation(int64_t n, PhiloxStream random) {
  if (n > kMostListed) return found_order(FeistelPermutation(n, random));
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_64(random) % i]);
  return listed_order(std::move(order));
}

void check_count(const char* sampler, const char* what, int64_t count, int64_t least) {
  constexpr int64_t kMost = int64_t{1} << 60;
  WICK_CHECK(count >= least && count <= kMost, sampler, ": wrong ", what, ": got ", count,
             ", expected ", least, " to ", kMost);
}

std::shared_ptr<const Order> sequence(int64_t first = 0) {
  return found_order([first](int64_t place) { return first + place; });
}

void check_replicas(const char* sampler, int64_t num_replicas, int64_t rank) {
  check_count(sampler, "num_replicas", num_replicas, 1);
  WICK_CHECK(rank >= 0 && rank < num_replicas, sampler, ": wrong rank: got ", rank,
             ", expected 0 to ", num_replicas - 1);
}

class ListedOrder final : public Order {
 public:
  explicit ListedOrder(std::vector<int64_t> samples) : samples_(std::move(samples)) {}
  void at(int64_t first, std::span<int64_t> out) const override {
    WICK_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <=
                                 static_cast<int64_t>(samples_.size()),
               "order: places ", first, " to ", first + static_cast<int64_t>(out.size()) - 1,
               " asked for, of ", samples_.size());
    std::copy_n(samples_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
  }

 private:
  std::vector<int64_t> samples_;
};

}  // namespace

std::shared_ptr<const Order> listed_order(std::vector<int64_t> samples) {
  return std::make_shared<const ListedOrder>(std::move(samples));
}

SequentialSampler::SequentialSampler(int64_t n, int64_t first) : n_(n), first_(first) {
  check_count("sequential sampler", "number of samples", n, 0);
  check_count("sequential sampler", "first sample", first, 0);
}

std::shared_ptr<const Order> SequentialSampler::order(uint64_t, int64_t) const {
  return sequence(first_);
}

RandomSampler::RandomSampler(int64_t n, bool replacement, std::optional<int64_t> num_samples)
    : n_(n), num_samples_(num_samples.value_or(n)), replacement_(replacement) {
  check_count("random sampler", "number of samples", n, 0);
  check_count("random sampler", "num_samples", num_samples_, num_samples ? 1 : 0);
  WICK_CHECK(n > 0 || num_samples_ == 0, "random sampler: got ", num_samples_,
             " as num_samples, and no samples to draw from");
}

std::shared_ptr<const Order> RandomSampler::order(uint64_t seed, int64_t epoch) const {
  if (replacement_) {
    return found_order([n = n_, seed, epoch](int64_t place) {
      PhiloxStream random = place_stream(seed, epoch, place);
      return static_cast<int64_t>(next_64(random) % static_cast<uint64_t>(n));
    });
  }
  if (num_samples_ <= n_) return random_permutation(n_, order_stream(seed, epoch));
  std::vector<std::shared_ptr<const Order>> rounds;
  for (int64_t round = 0; round * n_ < num_samples_; ++round) {
    rounds.push_back(random_permutation(n_, order_stream(seed, epoch, round)));
  }
  return found_order([n = n_, rounds = std::move(rounds)](int64_t place) {
    return one_of(*rounds[static_cast<size_t>(place / n)], place % n);
  });
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                                             bool replacement)
    : weights_(std::move(weights)), num_samples_(num_samples), replacement_(replacement) {
  check_count("weighted random sampler", "num_samples", num_samples, 1);
  int64_t possible = 0;
  double sum = 0;
  std::vector<double> sums;
  for (size_t i = 0; i < weights_.size(); ++i) {
    WICK_CHECK(weights_[i] >= 0 && std::isfinite(weights_[i]),
               "weighted random sampler: wrong weight: got ", weights_[i], " for sample ", i,
               ", expected a number of 0 or more");
    possible += weights_[i] > 0 ? 1 : 0;
    sums.push_back(sum += weights_[i]);
  }
  WICK_CHECK(possible > 0 && std::isfinite(sum),
             "weighted random sampler: wrong sum of weights: got ", sum,
             ", expected a number above 0");
  WICK_CHECK(replacement || num_samples <= possible,
             "weighted random sampler: too few samples: got ", possible,
             " with a weight above 0, expected at least the ", num_samples,
             " to be drawn without replacement");
  sums_ = std::make_shared<const std::vector<double>>(std::move(sums));
}

std::shared_ptr<const Order> WeightedRandomSampler::order(uint64_t seed, int64_t epoch) const {
  if (replacement_) {
    return found_order([sums = sums_, seed, epoch](int64_t place) {
      PhiloxStream random = place_stream(seed, epoch, place);
      const uint32_t high = random.next(), low = random.next();
      const double drawn = uniform_double(high, low) * sums->back();
      // The first sum above it: that of a weight above 0. Rounding can push it to the end.
      const auto found = std::upper_bound(sums->begin(), sums->end(), drawn);
      const auto last = std::lower_bound(sums->begin(), sums->end(), sums->back());
      return static_cast<int64_t>(std::min(found, last) - sums->begin());
    });
  }
  std::vector<std::pair<double, int64_t>> keys;
  PhiloxStream random = order_stream(seed, epoch);
  for (size_t i = 0; i < weights_.size(); ++i) {
    const uint32_t high = random.next(), low = random.next();
    if (weights_[i] == 0) continue;
    const double u = 1 - uniform_double(high, low);  // in (0, 1]
    keys.emplace_back(-std::log(u) / weights_[i], static_cast<int64_t>(i));
  }
  std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(num_samples_),
                    keys.end());
  std::vector<int64_t> order;
  for (int64_t i = 0; i < num_samples_; ++i) order.push_back(keys[static_cast<size_t>(i)].second);
  return listed_order(std::move(order));
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<int64_t> indices)
    : indices_(std::make_shared<const std::vector<int64_t>>(std::move(indices))) {}

std::shared_ptr<const Order> SubsetRandomSampler::order(uint64_t seed, int64_t epoch) const {
  return found_order(
      [indices = indices_, order = random_permutation(size(), order_stream(seed, epoch))](
          int64_t place) { return (*indices)[static_cast<size_t>(one_of(*order, place))]; });
}

DistributedSampler::DistributedSampler(int64_t n, int64_t num_replicas, int64_t rank,
                                       Options options)
    : n_(n), num_replicas_(num_replicas), rank_(rank), shuffle_(options.shuffle) {
  check_count("distributed sampler", "number of samples", n, 0);
  check_replicas("distributed sampler", num_replicas, rank);
  size_ = n / num_replicas + (n % num_replicas != 0 && !options.drop_last ? 1 : 0);
}

std::shared_ptr<const Order> DistributedSampler::order(uint64_t seed, int64_t epoch) const {
  const auto whole = shuffle_ ? random_permutation(n_, order_stream(seed, epoch)) : sequence();
  return found_order([whole, n = n_, replicas = num_replicas_, rank = rank_](int64_t place) {
    return one_of(*whole, (place * replicas + rank) % n);
  });
}

namespace {

class EvenBatches final : public BatchOrder {
 public:
  EvenBatches(std::shared_ptr<const Order> order, int64_t samples, int64_t batch_size)
      : order_(std::move(order)), samples_(samples), batch_size_(batch_size) {}
  std::vector<int64_t> batch(int64_t index) const override {
    const int64_t first = first_place(index);
    std::vector<int64_t> samples(static_cast<size_t>(std::min(batch_size_, samples_ - first)));
    order_->at(first, samples);
    return samples;
  }
  int64_t first_place(int64_t index) const override { return index * batch_size_; }

 private:
  std::shared_ptr<const Order> order_;
  int64_t samples_, batch_size_;
};

class SharedBatches final : public BatchOrder {
 public:
  SharedBatches(std::shared_ptr<const Order> order, int64_t samples, int64_t batch_size,
                int64_t replicas, int64_t rank)
      : order_(std::move(order)),
        samples_(samples),
        batch_size_(batch_size),
        replicas_(replicas),
        rank_(rank) {}
  std::vector<int64_t> batch(int64_t index) const override {
    const int64_t first = first_place(index), count = share(index);
    std::vector<int64_t> samples(static_cast<size_t>(count));
    const int64_t until_end = std::clamp<int64_t>(samples_ - first, 0, count);
    if (until_end > 0) order_->at(first, {samples.data(), static_cast<size_t>(until_end)});
    for (int64_t i = until_end; i < count; ++i) {
      samples[static_cast<size_t>(i)] = one_of(*order_, (first + i) % samples_);
    }
    return samples;
  }
  int64_t first_place(int64_t index) const override {
    return index * batch_size_ + rank_ * share(index);
  }

 private:
  int64_t share(int64_t index) const {
    const int64_t all = std::min(batch_size_, samples_ - index * batch_size_);
    return (all + replicas_ - 1) / replicas_;
  }

  std::shared_ptr<const Order> order_;
  int64_t samples_, batch_size_, replicas_, rank_;
};

std::shared_ptr<const Order> order_of(const Sampler& sampler, uint64_t seed, int64_t epoch) {
  std::shared_ptr<const Order> order = sampler.order(seed, epoch);
  WICK_CHECK(order != nullptr, "sampler: the order of an epoch is null: got none for epoch ", epoch,
             ", expected one");
  return order;
}

}  // namespace

BatchSampler::BatchSampler(std::shared_ptr<const Sampler> sampler, int64_t batch_size,
                           bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  WICK_CHECK(sampler_ != nullptr, "batch sampler: got no sampler");
  check_count("batch sampler", "batch_size", batch_size, 1);
}

int64_t BatchSampler::size() const {
  const int64_t n = sampler_->size();
  check_count("batch sampler", "size of the sampler", n, 0);
  return n / batch_size_ + (n % batch_size_ != 0 && !drop_last_ ? 1 : 0);
}

std::shared_ptr<const BatchOrder> BatchSampler::order(uint64_t seed, int64_t epoch) const {
  return std::make_shared<const EvenBatches>(order_of(*sampler_, seed, epoch), sampler_->size(),
                                             batch_size_);
}

DistributedBatchSampler::DistributedBatchSampler(std::shared_ptr<const Sampler> sampler,
                                                 int64_t batch_size, int64_t num_replicas,
                                                 int64_t rank, bool drop_last)
    : sampler_(sampler),
      whole_(std::move(sampler), batch_size, drop_last),
      batch_size_(batch_size),
      num_replicas_(num_replicas),
      rank_(rank) {
  check_replicas("distributed batch sampler", num_replicas, rank);
  WICK_CHECK(batch_size % num_replicas == 0, "distributed batch sampler: wrong batch_size: got ",
             batch_size, ", expected a multiple of the ", num_replicas, " replicas");
}

std::shared_ptr<const BatchOrder> DistributedBatchSampler::order(uint64_t seed,
                                                                 int64_t epoch) const {
  return std::make_shared<const SharedBatches>(order_of(*sampler_, seed, epoch), sampler_->size(),
                                               batch_size_, num_replicas_, rank_);
}

}  // namespace wick::data
