#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace wick::data {

/// The samples of one epoch in the order in which they are read.
class Order {
 public:
  virtual ~Order() = default;
  /// Writes the samples at places `first` to `first` + out.size() - 1. Several threads call this at
  /// once.
  virtual void at(int64_t first, std::span<int64_t> out) const = 0;
};

/// An order that is a list.
std::shared_ptr<const Order> listed_order(std::vector<int64_t> samples);

/// Chooses the samples of each epoch and their order: a function of the loader's seed and the epoch
/// alone, so that a run can go on from any place.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Samples per epoch.
  virtual int64_t size() const = 0;
  /// The samples of an epoch, in their order.
  virtual std::shared_ptr<const Order> order(uint64_t seed, int64_t epoch) const = 0;
  /// Whether a sample can come twice in an epoch. Its random transforms then differ.
  virtual bool repeats() const { return false; }
  /// Whether it gives one process's share of an order, which needs one seed in all processes.
  virtual bool is_shared() const { return false; }
};

/// `first` to first + n - 1.
class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(int64_t n, int64_t first = 0);
  int64_t size() const override { return n_; }
  std::shared_ptr<const Order> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_, first_;
};

/// 0 to n - 1 in a random order, or with `replacement` drawn one by one. `num_samples` (default: n)
/// of them: where that is more than n without replacement, one order after the other. Up to 2^20
/// samples every order is equally likely; of more, any place is found at once by a permutation that
/// is calculated (a Feistel network; Black and Rogaway: Ciphers with arbitrary finite domains,
/// CT-RSA 2002).
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(int64_t n, bool replacement = false,
                         std::optional<int64_t> num_samples = {});
  int64_t size() const override { return num_samples_; }
  std::shared_ptr<const Order> order(uint64_t seed, int64_t epoch) const override;
  bool repeats() const override { return replacement_ || num_samples_ > n_; }

 private:
  int64_t n_, num_samples_;
  bool replacement_;
};

/// `num_samples` draws of 0 to weights.size() - 1 with chances in proportion to `weights` (finite,
/// 0 or more). Without `replacement` each is drawn at most once (Efraimidis and Spirakis: Weighted
/// random sampling with a reservoir, 2006); enough of them must have a weight above 0.
class WeightedRandomSampler final : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t num_samples, bool replacement = true);
  int64_t size() const override { return num_samples_; }
  std::shared_ptr<const Order> order(uint64_t seed, int64_t epoch) const override;
  bool repeats() const override { return replacement_; }

 private:
  std::shared_ptr<const std::vector<double>> sums_;  // of the weights up to and with each
  std::vector<double> weights_;
  int64_t num_samples_;
  bool replacement_;
};

/// The samples `indices` in a random order.
class SubsetRandomSampler final : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<int64_t> indices);
  int64_t size() const override { return static_cast<int64_t>(indices_->size()); }
  std::shared_ptr<const Order> order(uint64_t seed, int64_t epoch) const override;

 private:
  std::shared_ptr<const std::vector<int64_t>> indices_;
};

/// The share of process `rank` of `num_replicas` in 0 to n - 1: places rank, rank + num_replicas,
/// ... of one order, random unless `shuffle` is false. All shares are equally long: the order goes
/// on from its start for as many as are missing, or with `drop_last` loses those too many. All
/// processes' loaders need the same seed, which is 0 where none is given. There is no `set_epoch`:
/// a loader knows its epoch, and each has an order of its own.
class DistributedSampler final : public Sampler {
 public:
  /// Whether the order is random, and whether samples that do not divide are left out.
  struct Options {
    bool shuffle = true;
    bool drop_last = false;
  };
  /// Error for an `n` below 0, or a `rank` outside 0 to num_replicas - 1. Without options:
  /// shuffled, and no sample is left out.
  DistributedSampler(int64_t n, int64_t num_replicas, int64_t rank, Options options);
  DistributedSampler(int64_t n, int64_t num_replicas, int64_t rank)
      : DistributedSampler(n, num_replicas, rank, Options()) {}
  int64_t size() const override { return size_; }
  std::shared_ptr<const Order> order(uint64_t seed, int64_t epoch) const override;
  bool is_shared() const override { return true; }

 private:
  int64_t n_, num_replicas_, rank_, size_;
  bool shuffle_;
};

/// The batches of one epoch.
class BatchOrder {
 public:
  virtual ~BatchOrder() = default;
  /// The samples of batch `index`. Several threads call this at once.
  virtual std::vector<int64_t> batch(int64_t index) const = 0;
  /// The place in the epoch of its first sample: random streams go by it if samples repeat.
  virtual int64_t first_place(int64_t index) const = 0;
};

/// Chooses whole batches, of any sizes: what DataLoader takes as its `batch_sampler`.
class Batches {
 public:
  virtual ~Batches() = default;
  /// Batches per epoch.
  virtual int64_t size() const = 0;
  /// The batches of an epoch, in their order.
  virtual std::shared_ptr<const BatchOrder> order(uint64_t seed, int64_t epoch) const = 0;
  virtual bool repeats() const { return false; }
  virtual bool is_shared() const { return false; }
  /// Which part it gives of each batch, in parts of one size. What is drawn for batches as a whole
  /// is drawn for all parts, and each takes its own.
  virtual int64_t part() const { return 0; }
};

/// Batches of `batch_size` samples of `sampler`; the last one smaller, or with `drop_last` left
/// out, if they do not divide.
class BatchSampler final : public Batches {
 public:
  BatchSampler(std::shared_ptr<const Sampler> sampler, int64_t batch_size, bool drop_last);
  int64_t size() const override;
  std::shared_ptr<const BatchOrder> order(uint64_t seed, int64_t epoch) const override;
  bool repeats() const override { return sampler_->repeats(); }
  bool is_shared() const override { return sampler_->is_shared(); }

 private:
  std::shared_ptr<const Sampler> sampler_;
  int64_t batch_size_;
  bool drop_last_;
};

/// The share of process `rank` of `num_replicas` in the batches of `sampler`. A batch has
/// `batch_size` samples, those of all processes together and a multiple of num_replicas; the share
/// is its rank-th part.
///
/// So in every step all processes together see what one alone sees with BatchSampler(sampler,
/// batch_size), whatever their number, and a run can go on with another number of them. If the
/// samples do not divide, the last batch is left out with `drop_last`; else the order goes on from
/// its start until all shares of it are equally long. All processes' loaders need the same seed,
/// which is 0 where none is given.
///
/// DistributedSampler deals samples out one by one, as PyTorch's does: which of them meet in a step
/// then depends on the number of processes.
class DistributedBatchSampler final : public Batches {
 public:
  DistributedBatchSampler(std::shared_ptr<const Sampler> sampler, int64_t batch_size,
                          int64_t num_replicas, int64_t rank, bool drop_last);
  int64_t size() const override { return whole_.size(); }
  std::shared_ptr<const BatchOrder> order(uint64_t seed, int64_t epoch) const override;
  bool repeats() const override { return sampler_->repeats(); }
  bool is_shared() const override { return true; }
  int64_t part() const override { return rank_; }

 private:
  std::shared_ptr<const Sampler> sampler_;
  BatchSampler whole_;  // of all processes together
  int64_t batch_size_, num_replicas_, rank_;
};

}  // namespace wick::data
