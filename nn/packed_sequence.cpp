#include "wick/nn/packed_sequence.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/view.h"

namespace wick::nn {

namespace {

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> places(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    places[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
  }
  return places;
}

// Of lengths that fall.
std::vector<int64_t> batch_sizes_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> sizes;
  size_t count = lengths.size();
  for (int64_t t = 0; t < lengths[0]; ++t) {
    while (lengths[count - 1] <= t) --count;
    sizes.push_back(static_cast<int64_t>(count));
  }
  return sizes;
}

// Of the packed sequences, the longest first. Error if batch sizes are not such.
std::vector<int64_t> lengths_of(const std::vector<int64_t>& batch_sizes) {
  WICK_CHECK(!batch_sizes.empty(), "PackedSequence: got no batch sizes, expected 1 or more");
  std::vector<int64_t> lengths(static_cast<size_t>(std::max<int64_t>(batch_sizes[0], 0)));
  int64_t most = batch_sizes[0];
  for (const int64_t size : batch_sizes) {
    WICK_CHECK(size >= 1 && size <= most, "PackedSequence: batch sizes must not grow: got ", size,
               " after ", most, ", expected 1 to ", most);
    most = size;
    for (int64_t k = 0; k < size; ++k) ++lengths[static_cast<size_t>(k)];
  }
  return lengths;
}

// The rows of `x` [rows, *] that `places` names, `count` standing for one more row, of `fill`.
Tensor rows_or_fill(const Tensor& x, const std::vector<int64_t>& places, double fill) {
  Shape one = x.shape();
  one[0] = 1;
  const bool fills = std::count(places.begin(), places.end(), x.size(0)) > 0;
  const Tensor rows = fills ? cat({x, full(one, fill, x.dtype(), x.device())}) : x;
  return index_select(rows, 0, tensor(places, {}, x.device()));
}

// [first axis, second axis, *] of rows [first axis * second axis, *].
Tensor as_batch(const Tensor& rows, int64_t first, int64_t second) {
  return rows.unflatten(0, {first, second});
}

void check_lengths(const char* op, const std::vector<int64_t>& lengths, int64_t steps,
                   bool enforce_sorted) {
  for (size_t k = 0; k < lengths.size(); ++k) {
    WICK_CHECK(lengths[k] >= 1 && lengths[k] <= steps, op, ": lengths: got ", lengths[k],
               " of sequence ", k, ", expected 1 to ", steps);
    WICK_CHECK(!enforce_sorted || k == 0 || lengths[k] <= lengths[k - 1], op,
               ": lengths must fall: got ", lengths[k], " of sequence ", k, " after ",
               lengths[k - 1], ", expected less, or enforce_sorted = false");
  }
}

// Packs rows of which `row(k, t)` is step t of sequence k.
template <class Row>
PackedSequence pack_rows(const Tensor& rows, const std::vector<int64_t>& lengths,
                         bool enforce_sorted, const Row& row) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto length = [&](int64_t k) { return lengths[static_cast<size_t>(k)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::vector<int64_t> sorted, places;
  for (const int64_t k : order) sorted.push_back(length(k));
  PackedSequence packed;
  packed.batch_sizes = batch_sizes_of(sorted);
  for (size_t t = 0; t < packed.batch_sizes.size(); ++t) {
    for (int64_t k = 0; k < packed.batch_sizes[t]; ++k) {
      places.push_back(row(order[static_cast<size_t>(k)], static_cast<int64_t>(t)));
    }
  }
  packed.data = index_select(rows, 0, tensor(places, {}, rows.device()));
  if (!enforce_sorted) {
    packed.unsorted_indices = inverse(order);
    packed.sorted_indices = std::move(order);
  }
  return packed;
}

// The sequences one after another, and where each begins.
struct Joined {
  Tensor rows;
  std::vector<int64_t> first, lengths;
  int64_t longest = 0;
};
Joined join(const char* op, const std::vector<Tensor>& sequences) {
  WICK_CHECK(!sequences.empty(), op, ": got no sequences, expected 1 or more");
  Joined joined;
  int64_t rows = 0;
  for (const Tensor& sequence : sequences) {
    WICK_CHECK(sequence.defined() && sequence.rank() >= 1, op,
               ": sequences need 1 axis or more: got shape ",
               sequence.defined() ? sequence.shape() : Shape{});
    Shape want = sequences[0].shape();
    want[0] = sequence.size(0);
    WICK_CHECK(sequence.shape() == want, op, ": sequences differ beyond their lengths: got ",
               sequence.shape(), ", expected ", want);
    joined.first.push_back(rows);
    joined.lengths.push_back(sequence.size(0));
    joined.longest = std::max(joined.longest, sequence.size(0));
    rows += sequence.size(0);
  }
  joined.rows = cat(sequences);
  return joined;
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    bool batch_first, bool enforce_sorted) {
  const char* op = "pack_padded_sequence";
  WICK_CHECK(input.rank() >= 2, op, ": input needs 2 axes or more: got shape ", input.shape());
  const int64_t batch = input.size(batch_first ? 0 : 1), steps = input.size(batch_first ? 1 : 0);
  WICK_CHECK(batch > 0 && static_cast<int64_t>(lengths.size()) == batch, op, ": lengths: got ",
             lengths.size(), " for input ", input.shape(),
             ", expected one for each sequence, and a sequence");
  check_lengths(op, lengths, steps, enforce_sorted);
  return pack_rows(input.flatten(0, 1), lengths, enforce_sorted, [&](int64_t k, int64_t t) {
    return batch_first ? k * steps + t : t * batch + k;
  });
}

PaddedSequence pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                   double padding_value, std::optional<int64_t> total_length) {
  const char* op = "pad_packed_sequence";
  const std::vector<int64_t> sorted = lengths_of(sequence.batch_sizes);
  const int64_t longest = sorted[0], steps = total_length.value_or(longest);
  const int64_t rows = std::accumulate(sorted.begin(), sorted.end(), int64_t{0});
  const auto batch = static_cast<int64_t>(sorted.size());
  WICK_CHECK(steps >= longest, op, ": total_length is too small: got ", steps, ", expected ",
             longest, " or more");
  WICK_CHECK(sequence.data.rank() >= 1 && sequence.data.size(0) == rows, op,
             ": data does not fit batch sizes: got shape ", sequence.data.shape(), ", expected ",
             rows, " rows");
  std::vector<int64_t> at = sequence.unsorted_indices;
  if (at.empty()) {
    at.resize(sorted.size());
    std::iota(at.begin(), at.end(), int64_t{0});
  }
  WICK_CHECK(at.size() == sorted.size(), op, ": unsorted_indices: got ", at.size(), ", expected ",
             sorted.size());
  std::vector<int64_t> places(static_cast<size_t>(steps * batch), rows);
  PaddedSequence padded;
  for (const int64_t k : at) {
    WICK_CHECK(k >= 0 && k < batch, op, ": unsorted_indices: got ", k, ", expected less than ",
               batch);
    padded.lengths.push_back(sorted[static_cast<size_t>(k)]);
  }
  int64_t first = 0;
  for (int64_t t = 0; t < longest; ++t) {
    for (int64_t b = 0; b < batch; ++b) {
      if (padded.lengths[static_cast<size_t>(b)] <= t) continue;
      const int64_t place = batch_first ? b * steps + t : t * batch + b;
      places[static_cast<size_t>(place)] = first + at[static_cast<size_t>(b)];
    }
    first += sequence.batch_sizes[static_cast<size_t>(t)];
  }
  padded.data = as_batch(rows_or_fill(sequence.data, places, padding_value),
                         batch_first ? batch : steps, batch_first ? steps : batch);
  return padded;
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value,
                    PaddingSide padding_side) {
  const Joined all = join("pad_sequence", sequences);
  const auto batch = static_cast<int64_t>(sequences.size());
  std::vector<int64_t> places(static_cast<size_t>(all.longest * batch), all.rows.size(0));
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = all.lengths[static_cast<size_t>(b)];
    const int64_t begin = padding_side == PaddingSide::kLeft ? all.longest - length : 0;
    for (int64_t t = 0; t < length; ++t) {
      const int64_t step = begin + t;
      const int64_t place = batch_first ? b * all.longest + step : step * batch + b;
      places[static_cast<size_t>(place)] = all.first[static_cast<size_t>(b)] + t;
    }
  }
  return as_batch(rows_or_fill(all.rows, places, padding_value), batch_first ? batch : all.longest,
                  batch_first ? all.longest : batch);
}

std::vector<Tensor> unpad_sequence(const Tensor& padded, const std::vector<int64_t>& lengths,
                                   bool batch_first) {
  const char* op = "unpad_sequence";
  WICK_CHECK(padded.rank() >= 2, op, ": padded needs 2 axes or more: got shape ", padded.shape());
  const int64_t batch = padded.size(batch_first ? 0 : 1), steps = padded.size(batch_first ? 1 : 0);
  WICK_CHECK(static_cast<int64_t>(lengths.size()) == batch, op, ": lengths: got ", lengths.size(),
             " for shape ", padded.shape(), ", expected one for each sequence");
  std::vector<Tensor> sequences;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    WICK_CHECK(length >= 0 && length <= steps, op, ": lengths: got ", length, " of sequence ", b,
               ", expected 0 to ", steps);
    sequences.push_back(padded.select(batch_first ? 0 : 1, b).narrow(0, 0, length));
  }
  return sequences;
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  const Joined all = join("pack_sequence", sequences);
  check_lengths("pack_sequence", all.lengths, all.longest, enforce_sorted);
  return pack_rows(all.rows, all.lengths, enforce_sorted,
                   [&](int64_t k, int64_t t) { return all.first[static_cast<size_t>(k)] + t; });
}

std::vector<Tensor> unpack_sequence(const PackedSequence& sequence) {
  const PaddedSequence padded = pad_packed_sequence(sequence);
  return unpad_sequence(padded.data, padded.lengths);
}

}  // namespace wick::nn
