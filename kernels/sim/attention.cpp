#include "wick/kernels/attention.h"

#include <cmath>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/sim/library.h"
#include "wick/kernels/sim/simulator.h"

// Stands for cuDNN.
namespace wick::cuda {

namespace {

constexpr int64_t kMostFeatures = 128;  // of a head

/// One head of a tensor: rows of neighbouring elements.
template <class T>
struct Rows {
  T* data;
  int64_t step;

  Rows(const View& x, int64_t batch, int64_t head)
      : data(x.as<T>() + batch * x.strides[0] + head * x.strides[1]), step(x.strides[2]) {}
  float at(int64_t row, int64_t i) const { return static_cast<float>(data[row * step + i]); }
  void put(int64_t row, int64_t i, float value) const { data[row * step + i] = T(value); }
};

/// Of one head: L, S, E and F of kernels/attention.h.
struct Sizes {
  int64_t queries, keys, features, values;
  explicit Sizes(const Attention& a)
      : queries(a.q.shape[2]), keys(a.k.shape[2]), features(a.q.shape[3]), values(a.v.shape[3]) {}
};

template <class T>
float dot(const Rows<T>& a, int64_t i, const Rows<T>& b, int64_t j, int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += a.at(i, c) * b.at(j, c);
  return sum;
}

/// A head's scores before the softmax.
template <class T>
struct ScoresOf {
  const Attention& a;
  Rows<T> q, k;
  const T* bias = nullptr;

  ScoresOf(const Attention& of, int64_t batch, int64_t head)
      : a(of), q(of.q, batch, head), k(of.k, batch, head) {
    if (!a.bias.defined()) return;
    const Shape &sizes = a.bias.shape, &steps = a.bias.strides;
    bias = a.bias.as<T>() + (sizes[0] > 1 ? batch * steps[0] : 0) +
           (sizes[1] > 1 ? head * steps[1] : 0);
  }
  float at(int64_t i, int64_t j) const {
    if (a.is_causal && j > i) return -HUGE_VALF;
    const float added = bias != nullptr ? static_cast<float>(bias[i * a.k.shape[2] + j]) : 0;
    return dot(q, i, k, j, a.q.shape[3]) * a.scale + added;
  }
};

template <class T>
void forward_head(const Attention& a, int64_t batch, int64_t head) {
  const Sizes n(a);
  const ScoresOf<T> scores(a, batch, head);
  const Rows<T> v(a.v, batch, head), o(a.o, batch, head);
  const Rows<float> stats(a.stats, batch, head);
  std::vector<float> weights(static_cast<size_t>(n.keys));
  for (int64_t i = 0; i < n.queries; ++i) {
    float most = -HUGE_VALF, total = 0;
    for (int64_t j = 0; j < n.keys; ++j) {
      weights[static_cast<size_t>(j)] = scores.at(i, j);
      most = std::max(most, weights[static_cast<size_t>(j)]);
    }
    for (float& w : weights) total += w = std::exp(w - most);
    stats.put(i, 0, most + std::log(total));
    for (int64_t c = 0; c < n.values; ++c) {
      float sum = 0;
      for (int64_t j = 0; j < n.keys; ++j) sum += weights[static_cast<size_t>(j)] * v.at(j, c);
      o.put(i, c, sum / total);
    }
  }
}

template <class T>
void backward_head(const Attention& a, const AttentionGradients& g, int64_t batch, int64_t head) {
  const Sizes n(a);
  const ScoresOf<T> scores(a, batch, head);
  const Rows<T>&q = scores.q, &k = scores.k;
  const Rows<T> v(a.v, batch, head), o(a.o, batch, head);
  const Rows<T> d_o(g.d_o, batch, head), dq(g.dq, batch, head), dk(g.dk, batch, head),
      dv(g.dv, batch, head);
  const Rows<float> stats(a.stats, batch, head);
  std::vector<float> sum_q(static_cast<size_t>(n.queries * n.features));
  std::vector<float> sum_k(static_cast<size_t>(n.features)), sum_v(static_cast<size_t>(n.values));
  for (int64_t j = 0; j < n.keys; ++j) {
    std::fill(sum_k.begin(), sum_k.end(), 0.0f);
    std::fill(sum_v.begin(), sum_v.end(), 0.0f);
    for (int64_t i = 0; i < n.queries; ++i) {
      const float weight = std::exp(scores.at(i, j) - stats.at(i, 0));
      const float slope = dot(d_o, i, v, j, n.values) - dot(d_o, i, o, i, n.values);
      const float d_score = weight * slope * a.scale;
      for (int64_t c = 0; c < n.values; ++c) {
        sum_v[static_cast<size_t>(c)] += weight * d_o.at(i, c);
      }
      for (int64_t c = 0; c < n.features; ++c) {
        sum_k[static_cast<size_t>(c)] += d_score * q.at(i, c);
        sum_q[static_cast<size_t>(i * n.features + c)] += d_score * k.at(j, c);
      }
    }
    for (int64_t c = 0; c < n.features; ++c) dk.put(j, c, sum_k[static_cast<size_t>(c)]);
    for (int64_t c = 0; c < n.values; ++c) dv.put(j, c, sum_v[static_cast<size_t>(c)]);
  }
  for (int64_t i = 0; i < n.queries; ++i) {
    for (int64_t c = 0; c < n.features; ++c) {
      dq.put(i, c, sum_q[static_cast<size_t>(i * n.features + c)]);
    }
  }
}

template <class Head>
void for_each_head(const Attention& a, const Head& head) {
  for (int64_t b = 0; b < a.q.shape[0]; ++b) {
    for (int64_t h = 0; h < a.q.shape[1]; ++h) {
      if (a.q.dtype == kFloat16) {
        head(Type<Half>{}, b, h);
      } else {
        head(Type<BFloat16>{}, b, h);
      }
    }
  }
}

std::vector<sim::Engine> offered_here() { return sim::offered_engines(deterministic()); }

void check_attention(const Attention& a) {
  WICK_CHECK(has_attention(a), sim::kCudnnCall, ": no plan for query ", a.q.shape);
  for (const View* x : {&a.q, &a.k, &a.v}) {  // cuDNN plans for others, and fails
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t bytes = x->strides[axis] * size_of(x->dtype);
      WICK_CHECK(x->shape[axis] == 1 ||
                     (bytes > 0 && bytes % static_cast<int64_t>(kAttentionAlignment) == 0),
                 sim::kCudnnCall, ": rows are not aligned: got strides ", x->strides);
    }
  }
  for (const auto& [name, x] :
       {std::pair{"q", &a.q}, std::pair{"k", &a.k}, std::pair{"v", &a.v}, std::pair{"o", &a.o},
        std::pair{"stats", &a.stats}, std::pair{"bias", &a.bias}}) {
    sim::check_argument(sim::kCudnnCall, name, *x, kAttentionAlignment);
  }
}

}  // namespace

bool has_attention(const Attention& a) {
  const Device device = a.q.device;
  sim::prepare("cudnnCreate", to_string(device));
  sim::prepare("cudnnBackendFinalize", concat(device, " ", a.q.dtype, " ", a.q.shape, a.k.shape));
  if (offered_here().empty()) return false;
  const Sizes n(a);
  const auto fits = [](int64_t features) { return features % 8 == 0 && features <= kMostFeatures; };
  return (a.q.dtype == kFloat16 || a.q.dtype == kBFloat16) && fits(n.features) && fits(n.values);
}

std::vector<std::string> attention_engines(const Attention& a, AttentionDirection) {
  return has_attention(a) ? sim::engine_names(offered_here()) : std::vector<std::string>();
}

void attention_forward(const Attention& a, int engine, Workspace& workspace) {
  const cudaStream_t stream = enter_device(a.q.device);
  check_attention(a);
  void* const scratch = sim::take_scratch(sim::kCudnnCall, workspace);
  const sim::Engine chosen = sim::use_engine(sim::kCudnnCall, offered_here(), engine);
  const auto run = [=] {
    const sim::LibraryWork work({&a.q, &a.k, &a.v, &a.bias}, {&a.o, &a.stats}, scratch);
    for_each_head(a, [&]<class T>(Type<T>, int64_t b, int64_t h) { forward_head<T>(a, b, h); });
  };
  check(sim::enqueue(sim::kCudnnCall, stream, run, chosen.milliseconds), sim::kCudnnCall);
}

void attention_backward(const Attention& a, const AttentionGradients& g, int engine,
                        Workspace& workspace) {
  const cudaStream_t stream = enter_device(a.q.device);
  check_attention(a);
  for (const auto& [name, x] : {std::pair{"d_o", &g.d_o}, std::pair{"dq", &g.dq},
                                std::pair{"dk", &g.dk}, std::pair{"dv", &g.dv}}) {
    sim::check_argument(sim::kCudnnCall, name, *x, kAttentionAlignment);
  }
  void* const scratch = sim::take_scratch(sim::kCudnnCall, workspace);
  const sim::Engine chosen = sim::use_engine(sim::kCudnnCall, offered_here(), engine);
  const auto run = [=] {
    const sim::LibraryWork work({&a.q, &a.k, &a.v, &a.bias, &a.o, &a.stats, &g.d_o},
                                {&g.dq, &g.dk, &g.dv}, scratch);
    for_each_head(a, [&]<class T>(Type<T>, int64_t b, int64_t h) { backward_head<T>(a, g, b, h); });
  };
  check(sim::enqueue(sim::kCudnnCall, stream, run, chosen.milliseconds), sim::kCudnnCall);
}

}  // namespace wick::cuda
