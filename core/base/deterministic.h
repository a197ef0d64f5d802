#pragma once

namespace wick {

/// Whether convolutions, attention and recurrent layers on a GPU may use only what the vendor's
/// library says gives the same bits in every run, as PyTorch's `cudnn.deterministic`. Off unless
/// set; for the whole process. All else is deterministic anyway, but for what `benchmark` measures
/// to be fastest.
bool deterministic();
void set_deterministic(bool on);

}  // namespace wick
