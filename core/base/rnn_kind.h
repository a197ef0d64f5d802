#pragma once

#include <cstdint>
#include <string_view>

namespace wick {

/// What a recurrent layer computes in each time step: a layer of tanh or of ReLU (Elman 1990), long
/// short-term memory (Hochreiter & Schmidhuber 1997), or gated recurrent units (Cho et al. 2014,
/// arXiv 1406.1078).
enum class RnnKind : uint8_t { kTanh, kRelu, kLstm, kGru };

/// How many gates a unit has: the weights have as many rows for each.
constexpr int64_t gates_of(RnnKind kind) {
  return kind == RnnKind::kLstm ? 4 : kind == RnnKind::kGru ? 3 : 1;
}

constexpr std::string_view to_string(RnnKind kind) {
  constexpr std::string_view kNames[] = {"rnn_tanh", "rnn_relu", "lstm", "gru"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace wick
