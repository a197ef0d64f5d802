#pragma once

#include <optional>

#include "wick/kernels/rnn_layer.h"

// The calls of the vendor's library for a recurrent layer: cudnn_rnn.cpp, or the simulator's
// rnn.cpp. The library has all weights in one space, and says where each lies. It queues on the
// current stream of the problem's device. Private to this folder.
namespace wick::cuda {

/// Memory of a GPU, from a multiple of kRnnLayerAlignment on.
struct RecurrentSpace {
  void* data = nullptr;
  size_t bytes = 0;
};

/// How many bytes the spaces of a call need.
struct RecurrentSizes {
  size_t weights = 0;
  size_t work = 0;
  size_t reserve = 0;  // 0 unless `is_training`
};

/// Where in the weight space the matrix [rows, columns] and the bias [rows] of a gate are, in
/// bytes; the bias -1 if there is none.
struct RecurrentPlace {
  int64_t matrix = 0;
  int64_t bias = -1;
};

/// Nothing if the library does not compute it.
std::optional<RecurrentSizes> recurrent_sizes(const RnnLayerProblem& problem, bool is_training);

/// Of each direction the gates of w_ih in our order, those of w_hh, and w_hr, if there is one.
std::vector<RecurrentPlace> recurrent_places(const RnnLayerProblem& problem,
                                             const RecurrentSpace& weights);

/// All views of `pass` are defined but those that the kind lacks, and `reserve`, which may be:
/// then nothing is kept for gradients.
void recurrent_forward(const RnnLayerProblem& problem, const RnnLayerPass& pass,
                       const RecurrentSpace& weights, const RecurrentSpace& work);

/// Has all gradients given and wanted, and changes `pass.reserve`.
void recurrent_backward_data(const RnnLayerProblem& problem, const RnnLayerPass& pass,
                             const RnnLayerGradients& gradients, const RecurrentSpace& weights,
                             const RecurrentSpace& work);

/// Adds to `dweights`. Comes after recurrent_backward_data, with the reserve that it left.
void recurrent_backward_weights(const RnnLayerProblem& problem, const RnnLayerPass& pass,
                                const RecurrentSpace& dweights, const RecurrentSpace& work);

}  // namespace wick::cuda
