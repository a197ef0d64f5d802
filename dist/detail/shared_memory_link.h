#pragma once

#include <memory>
#include <vector>

#include "wick/dist/detail/control.h"
#include "wick/dist/detail/link.h"

namespace wick::dist {

/// Links of all ranks to each other through memory that they share: no file has a name, so nothing
/// stays when they die. Every rank must call it; empty if they are not all on one host, or one of
/// them cannot open the memory. [r] is null for the rank itself.
std::vector<std::unique_ptr<Link>> make_shared_memory_links(Control& control, int rank, int size);

}  // namespace wick::dist
