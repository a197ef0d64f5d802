#pragma once

#include <memory>
#include <vector>

#include "wick/dist/detail/control.h"
#include "wick/dist/detail/link.h"

namespace wick::dist {

/// Links of all ranks to each other by TCP, on the interface by which this rank reaches rank 0.
/// Every rank must call it. A connection begins with a key that only ranks of the group know. [r]
/// is null for the rank itself. One thread uses all links of a rank.
std::vector<std::unique_ptr<Link>> make_tcp_links(Control& control, int rank, int size);

}  // namespace wick::dist
