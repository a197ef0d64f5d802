#pragma once

// Not here, being the engine's own: file.h, safetensors_header.h, memory/allocator_impl.h,
// memory/block.h, ops/dense.h, ops/reduce_axes.h.
#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/fields.h"
#include "wick/core/index.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/slice.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/ops/sort.h"
#include "wick/core/ops/view.h"
#include "wick/core/random.h"
#include "wick/core/ref.h"
#include "wick/core/scalar.h"
#include "wick/core/serialize.h"
#include "wick/core/storage.h"
#include "wick/core/tensor.h"
