#include <cudnn_adv.h>

#include <algorithm>

#include "wick/core/base/detail/dynamic_library.h"
#include "wick/core/base/profiling.h"
#include "wick/core/base/tf32.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/cudnn_graph.h"
#include "wick/kernels/cuda/recurrent.h"

// Recurrent layers by cuDNN's functions for them, which graphs have no operation for. Descriptors
// are host memory of a few fields each, and made for each call.
namespace wick::cuda {

namespace {

struct RnnApi {
  decltype(cudnnCreateRNNDescriptor)* create_rnn;
  decltype(cudnnDestroyRNNDescriptor)* destroy_rnn;
  decltype(cudnnSetRNNDescriptor_v8)* set_rnn;
  decltype(cudnnCreateRNNDataDescriptor)* create_data;
  decltype(cudnnDestroyRNNDataDescriptor)* destroy_data;
  decltype(cudnnSetRNNDataDescriptor)* set_data;
  decltype(cudnnCreateTensorDescriptor)* create_tensor;
  decltype(cudnnDestroyTensorDescriptor)* destroy_tensor;
  decltype(cudnnSetTensorNdDescriptor)* set_tensor;
  decltype(cudnnCreateDropoutDescriptor)* create_dropout;
  decltype(cudnnDestroyDropoutDescriptor)* destroy_dropout;
  decltype(cudnnSetDropoutDescriptor)* set_dropout;
  decltype(cudnnGetRNNWeightSpaceSize)* weight_space_size;
  decltype(cudnnGetRNNTempSpaceSizes)* temp_space_sizes;
  decltype(cudnnGetRNNWeightParams)* weight_params;
  decltype(cudnnRNNForward)* forward;
  decltype(cudnnRNNBackwardData_v8)* backward_data;
  decltype(cudnnRNNBackwardWeights_v8)* backward_weights;

  RnnApi() {
    const DynamicLibrary library("cuDNN 9", "libcudnn.so.9");
    library.find(create_rnn, "cudnnCreateRNNDescriptor");
    library.find(destroy_rnn, "cudnnDestroyRNNDescriptor");
    library.find(set_rnn, "cudnnSetRNNDescriptor_v8");
    library.find(create_data, "cudnnCreateRNNDataDescriptor");
    library.find(destroy_data, "cudnnDestroyRNNDataDescriptor");
    library.find(set_data, "cudnnSetRNNDataDescriptor");
    library.find(create_tensor, "cudnnCreateTensorDescriptor");
    library.find(destroy_tensor, "cudnnDestroyTensorDescriptor");
    library.find(set_tensor, "cudnnSetTensorNdDescriptor");
    library.find(create_dropout, "cudnnCreateDropoutDescriptor");
    library.find(destroy_dropout, "cudnnDestroyDropoutDescriptor");
    library.find(set_dropout, "cudnnSetDropoutDescriptor");
    library.find(weight_space_size, "cudnnGetRNNWeightSpaceSize");
    library.find(temp_space_sizes, "cudnnGetRNNTempSpaceSizes");
    library.find(weight_params, "cudnnGetRNNWeightParams");
    library.find(forward, "cudnnRNNForward");
    library.find(backward_data, "cudnnRNNBackwardData_v8");
    library.find(backward_weights, "cudnnRNNBackwardWeights_v8");
  }
};

const RnnApi& api() {
  // The graph's functions come first: they open what cuDNN itself looks for.
  static const RnnApi instance = ((void)cudnn(), RnnApi());
  return instance;
}

// A descriptor, which its pair of functions makes and destroys.
template <class Handle>
class Owned {
 public:
  using Destroy = cudnnStatus_t (*)(Handle);
  Owned(cudnnStatus_t (*create)(Handle*), Destroy destroy, const char* call) : destroy_(destroy) {
    check_cudnn(create(&handle_), call);
  }
  ~Owned() { destroy_(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_;
};

struct OwnedData : Owned<cudnnRNNDataDescriptor_t> {
  OwnedData() : Owned(api().create_data, api().destroy_data, "cudnnCreateRNNDataDescriptor") {}
};
struct OwnedTensor : Owned<cudnnTensorDescriptor_t> {
  OwnedTensor() : Owned(api().create_tensor, api().destroy_tensor, "cudnnCreateTensorDescriptor") {}
};

cudnnDataType_t type_of(Dtype dtype) {
  return dtype == kFloat64 ? CUDNN_DATA_DOUBLE : cudnn_type(dtype);
}

cudnnRNNMode_t mode_of(RnnKind kind) {
  switch (kind) {
    case RnnKind::kTanh: return CUDNN_RNN_TANH;
    case RnnKind::kRelu: return CUDNN_RNN_RELU;
    case RnnKind::kLstm: return CUDNN_LSTM;
    case RnnKind::kGru: break;
  }
  return CUDNN_GRU;
}

// CUDNN_DEFAULT_MATH lets float32 be TF32.
cudnnMathType_t math_of(Dtype dtype) {
  return dtype == kFloat32 && !allow_tf32() ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

// The descriptors of a layer.
class Description {
 public:
  explicit Description(const RnnLayerProblem& p)
      : handle(cudnn_handle(p.device)),
        layer_(api().create_rnn, api().destroy_rnn, "cudnnCreateRNNDescriptor"),
        dropout_(api().create_dropout, api().destroy_dropout, "cudnnCreateDropoutDescriptor") {
    // Dropout of probability 0 needs no states on the device.
    check_cudnn(api().set_dropout(dropout_.get(), handle, 0, nullptr, 0, 0),
                "cudnnSetDropoutDescriptor");
    const cudnnDataType_t type = type_of(p.dtype);
    const auto number = [](int64_t n) { return static_cast<int32_t>(n); };
    // Packed rows are what "padded IO" is disabled for. Without a projection its width is H.
    is_supported_ =
        is_supported(api().set_rnn(layer_.get(), CUDNN_RNN_ALGO_STANDARD, mode_of(p.kind),
                                   p.has_bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
                                   p.is_bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
                                   CUDNN_LINEAR_INPUT, type, type, math_of(p.dtype),
                                   number(p.inputs), number(p.units), number(p.width),
                                   /*numLayers=*/1, dropout_.get(), CUDNN_RNN_PADDED_IO_DISABLED),
                     "cudnnSetRNNDescriptor_v8");
    // Sequences from the longest to the shortest, as packing has them.
    const int batch = number(p.batch_sizes[0]), steps = number(int64_t(p.batch_sizes.size()));
    std::vector<int> lengths(static_cast<size_t>(batch));
    for (const int64_t size : p.batch_sizes) {
      for (int64_t b = 0; b < size; ++b) ++lengths[static_cast<size_t>(b)];
    }
    const auto set_data = [&](const OwnedData& data, int64_t width) {
      is_supported_ =
          is_supported_ &&
          is_supported(api().set_data(data.get(), type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                      steps, batch, number(width), lengths.data(), nullptr),
                       "cudnnSetRNNDataDescriptor");
    };
    set_data(x_, p.inputs);
    set_data(y_, p.directions() * p.width);
    const auto set_state = [&](const OwnedTensor& state, int width) {
      const int sizes[] = {number(p.directions()), batch, width},
                steps_of[] = {batch * width, width, 1};
      check_cudnn(api().set_tensor(state.get(), type, 3, sizes, steps_of),
                  "cudnnSetTensorNdDescriptor");
    };
    set_state(h_, number(p.width));
    set_state(c_, number(p.units));
  }

  bool is_supported_layer() const { return is_supported_; }
  cudnnRNNDescriptor_t layer() const { return layer_.get(); }
  cudnnRNNDataDescriptor_t x() const { return x_.get(); }
  cudnnRNNDataDescriptor_t y() const { return y_.get(); }
  cudnnTensorDescriptor_t h() const { return h_.get(); }
  cudnnTensorDescriptor_t c() const { return c_.get(); }

  const cudnnHandle_t handle;

 private:
  Owned<cudnnRNNDescriptor_t> layer_;
  Owned<cudnnDropoutDescriptor_t> dropout_;
  OwnedData x_, y_;
  OwnedTensor h_, c_;
  bool is_supported_ = false;
};

size_t bytes_of(const View& reserve) {
  return reserve.defined() ? static_cast<size_t>(reserve.numel()) : 0;
}

// cuDNN ignores lengths on the device since 8.9.1, and takes them from the descriptors.
constexpr const int32_t* kNoLengths = nullptr;

}  // namespace

std::optional<RecurrentSizes> recurrent_sizes(const RnnLayerProblem& problem, bool is_training) {
  if (!has_cudnn()) return std::nullopt;
  const Description description(problem);
  if (!description.is_supported_layer()) return std::nullopt;
  RecurrentSizes sizes;
  check_cudnn(api().weight_space_size(description.handle, description.layer(), &sizes.weights),
              "cudnnGetRNNWeightSpaceSize");
  const cudnnForwardMode_t mode = is_training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  if (!is_supported(api().temp_space_sizes(description.handle, description.layer(), mode,
                                           description.x(), &sizes.work, &sizes.reserve),
                    "cudnnGetRNNTempSpaceSizes")) {
    return std::nullopt;
  }
  if (!is_training) sizes.reserve = 0;
  return sizes;
}

std::vector<RecurrentPlace> recurrent_places(const RnnLayerProblem& problem,
                                             const RecurrentSpace& weights) {
  const Description description(problem);
  const OwnedTensor matrix_sizes, bias_sizes;
  const char* const space = static_cast<const char*>(weights.data);
  // The gates of the input's matrix, those of the state's, in our order, and then the projection:
  // number 8 of an LSTM.
  const auto count = static_cast<int32_t>(2 * gates_of(problem.kind)) + problem.is_projected();
  std::vector<RecurrentPlace> places;
  for (int32_t direction = 0; direction < problem.directions(); ++direction) {
    for (int32_t i = 0; i < count; ++i) {
      void *matrix = nullptr, *bias = nullptr;
      check_cudnn(api().weight_params(description.handle, description.layer(), direction,
                                      weights.bytes, weights.data, i, matrix_sizes.get(), &matrix,
                                      bias_sizes.get(), &bias),
                  "cudnnGetRNNWeightParams");
      places.push_back({static_cast<const char*>(matrix) - space,
                        bias == nullptr ? -1 : static_cast<const char*>(bias) - space});
    }
  }
  return places;
}

void recurrent_forward(const RnnLayerProblem& problem, const RnnLayerPass& pass,
                       const RecurrentSpace& weights, const RecurrentSpace& work) {
  const Description d(problem);
  const profile::KernelScope scope("cudnnRNNForward", problem.device, enter_device(problem.device));
  const bool is_training = pass.reserve.defined();
  check_cudnn(
      api().forward(d.handle, d.layer(),
                    is_training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, kNoLengths,
                    d.x(), pass.x.data, d.y(), pass.y.data, d.h(), pass.h_0.data, pass.h_n.data,
                    d.c(), pass.c_0.data, pass.c_n.data, weights.bytes, weights.data, work.bytes,
                    work.data, bytes_of(pass.reserve), pass.reserve.data),
      "cudnnRNNForward");
}

void recurrent_backward_data(const RnnLayerProblem& problem, const RnnLayerPass& pass,
                             const RnnLayerGradients& g, const RecurrentSpace& weights,
                             const RecurrentSpace& work) {
  const Description d(problem);
  const profile::KernelScope scope("cudnnRNNBackwardData_v8", problem.device,
                                   enter_device(problem.device));
  check_cudnn(
      api().backward_data(d.handle, d.layer(), kNoLengths, d.y(), pass.y.data, g.dy.data, d.x(),
                          g.dx.data, d.h(), pass.h_0.data, g.dh_n.data, g.dh_0.data, d.c(),
                          pass.c_0.data, g.dc_n.data, g.dc_0.data, weights.bytes, weights.data,
                          work.bytes, work.data, bytes_of(pass.reserve), pass.reserve.data),
      "cudnnRNNBackwardData_v8");
}

void recurrent_backward_weights(const RnnLayerProblem& problem, const RnnLayerPass& pass,
                                const RecurrentSpace& dweights, const RecurrentSpace& work) {
  const Description d(problem);
  const profile::KernelScope scope("cudnnRNNBackwardWeights_v8", problem.device,
                                   enter_device(problem.device));
  check_cudnn(api().backward_weights(d.handle, d.layer(), CUDNN_WGRAD_MODE_ADD, kNoLengths, d.x(),
                                     pass.x.data, d.h(), pass.h_0.data, d.y(), pass.y.data,
                                     dweights.bytes, dweights.data, work.bytes, work.data,
                                     bytes_of(pass.reserve), pass.reserve.data),
              "cudnnRNNBackwardWeights_v8");
}

}  // namespace wick::cuda
