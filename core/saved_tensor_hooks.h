#pragma once

#include <span>

#include "wick/core/base/scoped_value.h"
#include "wick/core/tensor.h"

namespace wick {

/// Stands in for a tensor that an op keeps for backward. Destroyed once backward is done with it.
class PackedTensor : public RefCounted {
 public:
  /// The tensor, with the elements it had. May be called more than once.
  virtual Tensor unpack() = 0;
};

/// Takes over what the ops of a thread keep for backward.
class SavedTensorHooks {
 public:
  virtual ~SavedTensorHooks() = default;
  /// Called with each tensor as an op is about to keep it; its elements may be written only later,
  /// by the same op. What is returned is kept in its place; with null the tensor itself is.
  virtual Ref<PackedTensor> pack(const Tensor& tensor) = 0;
  /// Called before each op that is no part of another: what was packed so far is written, or queued
  /// to be. The op changes those of `inputs` in place whose bit is set in `mutates`.
  virtual void before_op(std::span<const Tensor> inputs, uint32_t mutates) {
    (void)inputs, (void)mutates;
  }
};

/// The hooks in force on this thread; null if there are none.
SavedTensorHooks* saved_tensor_hooks();

/// Puts hooks (or, with null, none) in force on this thread while it lives.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorHooks* hooks);

 private:
  ScopedValue<SavedTensorHooks*> in_force_;
};

}  // namespace wick
