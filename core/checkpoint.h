#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "wick/core/serialize.h"

namespace wick {

/// A training run's whole state at one moment: tensors in parts ("weights", "optimizer", ...), each
/// of which becomes a safetensors file of its own.
struct Checkpoint {
  int64_t step = 0;  // optimizer steps taken; names the folder
  std::map<std::string, TensorMap> parts;
};

/// Keeps checkpoints under `folder`, one sub-folder each, named by step. A checkpoint is there
/// whole or not at all: it is written to a temporary folder with the size and CRC-32 of every file,
/// synced, and renamed.
class CheckpointStore {
 public:
  /// `keep` (1 or more): how many of the newest stay when a new one is written.
  explicit CheckpointStore(std::string folder, int keep = 2);

  /// Writes `checkpoint` and removes those that are not to be kept, of which those of the steps
  /// `spared` are none. Returns its folder. Throws FileError (a full disk, say) and leaves the
  /// older ones as they were.
  std::string save(const Checkpoint& checkpoint, const std::set<int64_t>& spared = {}) const;

  /// The checkpoint in `folder`, one of a store's. Error if it is not as it was written.
  static Checkpoint load(const std::string& folder);

  /// The newest checkpoint whose files are all as they were written; none if there is none. Each
  /// newer one that is damaged is left where it is and told about in `rejected`.
  std::optional<Checkpoint> load_newest(std::string* rejected = nullptr) const;

 private:
  std::string folder_;
  int keep_;
};

}  // namespace wick
