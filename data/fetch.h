#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wick::data {

/// Where `fetch` downloads from and to. By default: from the known places to the cache.
struct FetchOptions {
  /// Folder of everything downloaded; "" for cache_folder().
  std::string cache_dir;
  /// Where the files are, instead of the places known: http://... or https://..., without the name.
  std::string url;
  /// A file of "SHA256  NAME" lines, as sha256sum prints them, instead of the sums known: for a
  /// place whose files are packed otherwise.
  std::string sums;
  /// Give up if less than a kilobyte a second comes for so many seconds.
  int stall_seconds = 30;
  /// Called as bytes of a file come: its name, bytes so far, bytes in all (0 if not known).
  std::function<void(const std::string&, uint64_t, uint64_t)> progress = {};
};

/// Names of the sets that `fetch` can download: mnist, fashion-mnist, cifar10, cifar100.
const std::vector<std::string>& fetch_names();

/// $XDG_CACHE_HOME/wick, or $HOME/.cache/wick. Error if neither variable is set.
std::string cache_folder();

/// Downloads the data set `name` with the program curl and returns the folder that now holds it.
/// What is there already is kept, an interrupted download goes on where it stopped, and a file is
/// used only if it has the right SHA-256. Errors say what to do without a network.
std::string fetch(const std::string& name, const FetchOptions& options = {});

/// The folder in the cache that holds all files of the set `name`, or "".
std::string fetched_folder(const std::string& name);

}  // namespace wick::data
