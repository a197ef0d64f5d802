#pragma once

namespace wick {

/// Whether float32 matrix products, convolutions and recurrent layers on a GPU may round what they
/// multiply to TF32, which keeps 10 of 23 bits of the mantissa and is several times faster. Off
/// unless set; for the whole process.
bool allow_tf32();
void set_allow_tf32(bool on);

}  // namespace wick
