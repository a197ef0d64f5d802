#pragma once

#include <string>
#include <vector>

#include "wick/kernels/engine.h"
#include "wick/kernels/plan_key.h"

// How problems that can be computed in several ways are: convolutions by one of our algorithms or
// by an engine of a GPU vendor's library, matrix products and attention on a GPU by such an engine.
// Without plans fixed rules and the library's own heuristics decide.

namespace wick {

/// Whether such a problem, when it is first seen, is measured in every way, on a GPU by every
/// engine that the library's heuristics propose, and computed by the fastest from then on. What
/// fails is passed over. Off unless set. Two measured runs may differ in the last bits; runs that
/// load the same plans do not.
bool benchmark();
void set_benchmark(bool on);

/// Writes the plans made or loaded so far as text, a line each. Errors name the file.
void plans_save(const std::string& path);
/// Adds the plans of a file that plans_save wrote; what they are for is not measured again. A plan
/// that this device cannot follow is passed over. Error, and nothing is added, for any other
/// content.
void plans_load(const std::string& path);
void plans_clear();

/// Stands for the candidate that the rule takes.
inline constexpr int kAnyCandidate = kAnyEngine;

/// One way to compute a problem: its number, the problem's own, and its name in files,
/// one of kConvAlgorithmNames or library/ENGINE.
struct Candidate {
  int number;
  std::string name;
};

/// A problem that can be computed in several ways, as an op describes it.
class PlannedProblem {
 public:
  virtual Device device() const = 0;  // where it is computed
  virtual Dtype dtype() const = 0;    // of the result
  /// All that the choice of a candidate depends on: problems of equal keys take the same one.
  virtual PlanKey key() const = 0;
  /// What it is, in words for files: "matmul float32 a=2x3 b=3x4".
  virtual std::string words() const = 0;
  /// All its candidates.
  virtual std::vector<Candidate> candidates() const = 0;
  /// Computes it, as often as it is asked to, on the device's current stream.
  virtual void run(int candidate) const = 0;

 protected:
  ~PlannedProblem() = default;
};

/// Number of the candidate by which `problem` is computed: known, measured if benchmark() is on, or
/// kAnyCandidate.
int planned_candidate(const PlannedProblem& problem);

/// Fixes the candidate by which `problem` is computed, by name.
void plan_set(const PlannedProblem& problem, const std::string& candidate);

/// "2x3", for words().
std::string in_words(const Shape& sizes);
/// Of a problem for which a GPU vendor's library has `engines`, by their numbers.
std::vector<Candidate> library_candidates(const std::vector<std::string>& engines);

}  // namespace wick
