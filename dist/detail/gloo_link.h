#pragma once

#include <memory>
#include <vector>

#include "wick/dist/detail/control.h"
#include "wick/dist/detail/link.h"

namespace wick::dist {

/// Links of all ranks to each other by Gloo's TCP transport, on the interface by which this rank
/// reaches rank 0. Every rank must call it. [r] is null for the rank itself.
std::vector<std::unique_ptr<Link>> make_gloo_links(Control& control, int rank, int size);

}  // namespace wick::dist
