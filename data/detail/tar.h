#pragma once

#include <string>
#include <vector>

namespace wick::data {

/// Unpacks the files called `members`, and nothing else, from the tar archive `path` (plain or
/// gzip) into `folder`. Error if one of them is missing, is no plain file or has more
/// than 256 MB, or if the archive is damaged. Where to write follows from `members` alone.
void unpack_tar(const std::string& path, const std::string& folder,
                const std::vector<std::string>& members);

}  // namespace wick::data
