#include "wick/kernels/rnn_layer.h"

#include <algorithm>
#include <limits>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/recurrent.h"

namespace wick::cuda {

namespace {

View view_of(void* data, Dtype dtype, Device device, int64_t count) {
  return {data, dtype, device, {count}, {1}};
}

RecurrentSpace take(Workspace& workspace, size_t bytes) {
  return {workspace.allocate(bytes), bytes};
}

RecurrentSizes sizes_of(const RnnLayerProblem& problem, bool is_training) {
  const std::optional<RecurrentSizes> sizes = recurrent_sizes(problem, is_training);
  WICK_CHECK(sizes, "rnn_layer: the library does not compute a layer of ", problem.kind, " in ",
             problem.dtype);
  return *sizes;
}

// Calls visit(view, place): each piece of the weights that lies without a gap in the space too, and
// where it does, in bytes.
template <class Visit>
void visit_pieces(const RnnLayerProblem& problem, std::span<const RnnLayerWeights> weights,
                  const RecurrentSpace& space, const Visit& visit) {
  const std::vector<RecurrentPlace> places = recurrent_places(problem, space);
  const auto size = static_cast<int64_t>(size_of(problem.dtype));
  size_t next = 0;
  // `parts` parts of `whole`, one after the other, whose places `member` tells.
  const auto visit_whole = [&](const View& whole, int64_t RecurrentPlace::*member, int64_t parts) {
    if (!whole.defined()) return;
    const int64_t each = whole.numel() / parts;
    for (int64_t first = 0, end = 0; first < parts; first = end) {
      const int64_t place = places[next + static_cast<size_t>(first)].*member;
      end = first + 1;
      while (end < parts && places[next + static_cast<size_t>(end)].*member ==
                                place + (end - first) * each * size) {
        ++end;
      }
      visit(view_of(whole.as<char>() + first * each * size, problem.dtype, problem.device,
                    (end - first) * each),
            place);
    }
  };
  const int64_t gates = gates_of(problem.kind);
  for (const RnnLayerWeights& w : weights) {
    visit_whole(w.w_ih, &RecurrentPlace::matrix, gates);
    visit_whole(w.b_ih, &RecurrentPlace::bias, gates);
    next += static_cast<size_t>(gates);
    visit_whole(w.w_hh, &RecurrentPlace::matrix, gates);
    visit_whole(w.b_hh, &RecurrentPlace::bias, gates);
    next += static_cast<size_t>(gates);
    visit_whole(w.w_hr, &RecurrentPlace::matrix, 1);
    next += problem.is_projected() ? 1 : 0;
  }
}

View at(const RecurrentSpace& space, int64_t place, const View& like) {
  View view = like;
  view.data = static_cast<char*>(space.data) + place;
  return view;
}

RecurrentSpace packed(const RnnLayerProblem& problem, std::span<const RnnLayerWeights> weights,
                      size_t bytes, Workspace& workspace) {
  const RecurrentSpace space = take(workspace, bytes);
  visit_pieces(problem, weights, space,
               [&](const View& piece, int64_t place) { copy(piece, at(space, place, piece)); });
  return space;
}

// The library counts in 32 bits.
bool is_small(const RnnLayerProblem& p) {
  const int64_t widest = std::max(p.inputs, p.directions() * gates_of(p.kind) * p.units);
  return p.rows() <= std::numeric_limits<int32_t>::max() / widest &&
         p.units <= std::numeric_limits<int32_t>::max() / widest;
}

}  // namespace

bool has_rnn_layer(const RnnLayerProblem& problem) {
  return !deterministic() && is_small(problem) && recurrent_sizes(problem, true).has_value();
}

int64_t rnn_layer_reserve(const RnnLayerProblem& problem) {
  return static_cast<int64_t>(sizes_of(problem, true).reserve);
}

void rnn_layer_forward(const RnnLayerProblem& problem, std::span<const RnnLayerWeights> weights,
                       const RnnLayerPass& pass, Workspace& workspace) {
  const RecurrentSizes sizes = sizes_of(problem, pass.reserve.defined());
  const RecurrentSpace space = packed(problem, weights, sizes.weights, workspace);
  recurrent_forward(problem, pass, space, take(workspace, sizes.work));
}

void rnn_layer_backward(const RnnLayerProblem& problem, std::span<const RnnLayerWeights> weights,
                        const RnnLayerPass& pass, const RnnLayerGradients& gradients,
                        std::span<const RnnLayerWeights> dweights, Workspace& workspace) {
  const RecurrentSizes sizes = sizes_of(problem, true);
  const auto reserved = static_cast<int64_t>(sizes.reserve);
  WICK_CHECK(pass.reserve.numel() == reserved, "rnn_layer: the reserve is not of this layer: got ",
             pass.reserve.numel(), " bytes, expected ", reserved);
  const RecurrentSpace space = packed(problem, weights, sizes.weights, workspace);
  const RecurrentSpace work = take(workspace, sizes.work);
  RnnLayerPass own = pass;  // the library changes what it kept, which a second backward may need
  own.reserve.data = workspace.allocate(sizes.reserve);
  copy(pass.reserve, own.reserve);
  recurrent_backward_data(problem, own, gradients, space, work);
  if (dweights.empty()) return;
  // The weights are of no use any more. What lies between them is added to as well.
  fill(view_of(space.data, kUint8, problem.device, static_cast<int64_t>(space.bytes)), 0, 0);
  recurrent_backward_weights(problem, own, space, work);
  visit_pieces(problem, dweights, space,
               [&](const View& piece, int64_t place) { copy(at(space, place, piece), piece); });
}

}  // namespace wick::cuda
