#pragma once

#include <vector>

#include "wick/core/detail/storage_observer.h"
#include "wick/core/ref.h"

namespace wick::graph {

/// Host memory that the runs of one graph share. One run is watched: which memory it asks for, and
/// when each piece is free again. All pieces that are free when the next run begins get a place in
/// one block, so that further runs ask no allocator for them. A piece that a program holds longer
/// keeps its place; what else has a part of that place comes from the allocator until then. A run
/// that asks for something else gets it from the allocator; the next one is watched again.
class Arena final : public StorageObserver {
 public:
  Arena();
  ~Arena();

  void begin_run();
  void end_run();
  /// Size of the block, once there is one.
  size_t bytes() const;

  void* place(size_t bytes, Device device, std::function<void()>& release) override;
  void made(const Storage&) override {}

 private:
  struct Request;
  struct Block;
  enum class Phase { kFirst, kWatch, kPlan, kServe };

  void* watch(size_t bytes, std::function<void()>& release);
  void plan();

  Phase phase_ = Phase::kFirst;
  Ref<Block> block_;
  size_t next_ = 0;
  bool differs_ = false;
};

}  // namespace wick::graph
