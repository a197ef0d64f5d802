// Autocast: the class of every op against the lists of PyTorch, and what a guard does with it.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "wick/core/amp.h"
#include "wick/core/core.h"
#include "wick/core/detail/autocast.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using amp::AutocastState;
using Policy = wick::Autocast;
using Guard = amp::Autocast;

// Between 0.25 and 0.75.
Tensor values(const Shape& shape) { return rand(shape) * 0.5 + 0.25; }

// --- Policies -----------------------------------------------------------------------------------

// PyTorch's lists (ATen/autocast_mode), by our names of the ops. What is not named runs as it is.
// Here too: `square` and `pow_half`, which are powers, and the gradients of convolutions, of which
// one is the transposed convolution.
const std::map<std::string, std::vector<std::string>> kOnCuda = {
    {"lower",
     {"matmul", "linear", "linear_relu", "linear_gelu", "addmm", "conv2d", "conv2d_backward_input",
      "conv2d_backward_weight", "conv3d", "conv3d_backward_input", "conv3d_backward_weight",
      "prelu", "rnn_layer"}},
    {"float32",
     {"acos",
      "asin",
      "cosh",
      "erfinv",
      "log10",
      "sinh",
      "exp",
      "expm1",
      "log",
      "log1p",
      "log2",
      "reciprocal",
      "rsqrt",
      "tan",
      "pow",
      "pow_scalar",
      "pow_half",
      "square",
      "softplus",
      "layer_norm",
      "add_layer_norm",
      "rms_norm",
      "add_rms_norm",
      "group_norm",
      "logsumexp",
      "interpolate",
      "ctc_loss",
      "mse_loss",
      "l1_loss",
      "huber_loss",
      "kl_div",
      "nll_loss",
      "cross_entropy",
      "soft_cross_entropy",
      "binary_cross_entropy_with_logits"}},
    {"float32 out", {"sum", "prod", "softmax", "log_softmax", "cumsum", "cumprod", "norm"}},
    {"widest", {"atan2", "dot", "scatter_add", "cat"}},
    {"banned", {"binary_cross_entropy"}}};
const std::map<std::string, std::vector<std::string>> kOnCpu = {
    {"lower",
     {"matmul", "linear", "linear_relu", "linear_gelu", "addmm", "conv2d", "conv2d_backward_input",
      "conv2d_backward_weight", "conv3d", "conv3d_backward_input", "conv3d_backward_weight",
      "prelu", "rnn_layer"}},
    {"float32",
     {"prod",
      "norm",
      "pad",
      "mse_loss",
      "l1_loss",
      "huber_loss",
      "kl_div",
      "ctc_loss",
      "nll_loss",
      "cross_entropy",
      "soft_cross_entropy",
      "binary_cross_entropy",
      "binary_cross_entropy_with_logits",
      "solve_triangular",
      "solve",
      "cholesky",
      "cholesky_solve",
      "lu_factor",
      "slogdet",
      "qr",
      "svd",
      "eigh",
      "pinv"}},
    {"widest", {"cat"}}};

void expect_policies(const std::map<std::string, std::vector<std::string>>& lists,
                     Policy AutocastPolicy::*device) {
  std::map<std::string, std::string> expected;
  for (const auto& [policy, names] : lists) {
    for (const std::string& name : names) expected[name] = policy;
  }
  std::set<std::string> found;
  for (const OpType* type : registered_ops()) {
    const std::string name = type->info.name;
    const auto listed = expected.find(name);
    EXPECT_EQ(to_string(type->info.autocast.*device),
              listed == expected.end() ? "as is" : listed->second)
        << name;
    found.insert(name);
  }
  for (const auto& [name, policy] : expected) EXPECT_TRUE(found.contains(name)) << name;
}

TEST(AutocastPolicies, OfEveryOpAreThoseOfTheLists) {
  expect_policies(kOnCuda, &AutocastPolicy::cuda);
  expect_policies(kOnCpu, &AutocastPolicy::cpu);
}

TEST(AutocastPolicies, OfOpsThatChangeTensorsAreNone) {
  for (const OpType* type : registered_ops()) {
    if (type->info.mutates == 0) continue;
    EXPECT_EQ(type->info.autocast.cpu, Policy::kAsIs) << type->info.name;
    EXPECT_EQ(type->info.autocast.cuda, Policy::kAsIs) << type->info.name;
  }
}

// --- Results of functions -----------------------------------------------------------------------

// A function of two square matrices of positive numbers, and the dtype of its result on CUDA and on
// the CPU: 16 for the lower one, 32, 1 for the wider of the two and 0 for what it is without
// autocast.
struct Function {
  const char* name;
  Tensor (*call)(const Tensor& x, const Tensor& y);
  int cuda, cpu;
};

Tensor as_images(const Tensor& x) { return x.reshape({1, 2, 2, 4}); }

const Function kFunctions[] = {
    {"matmul", matmul, 16, 16},
    {"mm", mm, 16, 16},
    {"linear", [](const Tensor& x, const Tensor& y) { return linear(x, y); }, 16, 16},
    {"linear with bias", [](const Tensor& x, const Tensor& y) { return linear(x, y, y[0]); }, 16,
     16},
    {"addmm", [](const Tensor& x, const Tensor& y) { return addmm(y, x, y); }, 16, 16},
    {"bmm", [](const Tensor& x, const Tensor& y) { return bmm(x.unsqueeze(0), y.unsqueeze(0)); },
     16, 16},
    {"conv2d",
     [](const Tensor& x, const Tensor& y) {
       return conv2d(as_images(x), y.reshape({4, 2, 1, 2}), y[0]);
     },
     16, 16},
    {"conv1d",
     [](const Tensor& x, const Tensor& y) {
       return conv1d(x.unsqueeze(0), y.reshape({2, 4, 2}), y[0].narrow(0, 0, 2));
     },
     16, 16},
    {"conv_transpose2d",
     [](const Tensor& x, const Tensor& y) {
       return conv_transpose2d(as_images(x), y.reshape({2, 4, 1, 2}), y[0]);
     },
     16, 16},
    {"attention",
     [](const Tensor& x, const Tensor& y) { return scaled_dot_product_attention(x, y, y); }, 16,
     16},
    {"attention with mask",
     [](const Tensor& x, const Tensor& y) { return scaled_dot_product_attention(x, y, y, y); }, 16,
     16},
    {"exp", [](const Tensor& x, const Tensor&) { return exp(x); }, 32, 0},
    {"expm1", [](const Tensor& x, const Tensor&) { return expm1(x); }, 32, 0},
    {"log", [](const Tensor& x, const Tensor&) { return log(x); }, 32, 0},
    {"log1p", [](const Tensor& x, const Tensor&) { return log1p(x); }, 32, 0},
    {"log2", [](const Tensor& x, const Tensor&) { return log2(x); }, 32, 0},
    {"tan", [](const Tensor& x, const Tensor&) { return tan(x); }, 32, 0},
    {"reciprocal", [](const Tensor& x, const Tensor&) { return reciprocal(x); }, 32, 0},
    {"rsqrt", [](const Tensor& x, const Tensor&) { return rsqrt(x); }, 32, 0},
    {"pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); }, 32, 0},
    {"pow 3", [](const Tensor& x, const Tensor&) { return pow(x, 3); }, 32, 0},
    {"pow 2", [](const Tensor& x, const Tensor&) { return pow(x, 2); }, 32, 0},
    {"pow 0.5", [](const Tensor& x, const Tensor&) { return pow(x, 0.5); }, 32, 0},
    {"softplus", [](const Tensor& x, const Tensor&) { return softplus(x); }, 32, 0},
    {"layer_norm", [](const Tensor& x, const Tensor& y) { return layer_norm(x, {4}, y[0], y[1]); },
     32, 0},
    {"group_norm",
     [](const Tensor& x, const Tensor& y) { return group_norm(x, 2, y[0], y[1], 1e-5); }, 32, 0},
    {"logsumexp", [](const Tensor& x, const Tensor&) { return logsumexp(x); }, 32, 0},
    {"interpolate",
     [](const Tensor& x, const Tensor&) {
       return interpolate(as_images(x), {4, 4});
     },
     32, 0},
    {"interpolate of volumes",
     [](const Tensor& x, const Tensor&) {
       return interpolate(as_images(x).unsqueeze(0), {2}, Interpolation::kTrilinear);
     },
     32, 0},
    {"interpolate with antialias",
     [](const Tensor& x, const Tensor&) {
       return interpolate(as_images(x), {1}, Interpolation::kBilinear, false, true);
     },
     32, 0},
    {"sum", [](const Tensor& x, const Tensor&) { return sum(x); }, 32, 0},
    {"prod", [](const Tensor& x, const Tensor&) { return prod(x); }, 32, 32},
    {"softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 1); }, 32, 0},
    {"log_softmax", [](const Tensor& x, const Tensor&) { return log_softmax(x, 1); }, 32, 0},
    {"cumsum", [](const Tensor& x, const Tensor&) { return cumsum(x, 0); }, 32, 0},
    {"cumprod", [](const Tensor& x, const Tensor&) { return cumprod(x, 0); }, 32, 0},
    {"norm", [](const Tensor& x, const Tensor&) { return norm(x); }, 32, 32},
    {"pad by reflection",
     [](const Tensor& x, const Tensor&) {
       return pad(x, {1, 1}, 0, PadMode::kReflect);
     },
     0, 32},
    {"pad",
     [](const Tensor& x, const Tensor&) {
       return pad(x, {1, 1});
     },
     0, 0},
    {"mse_loss", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }, 32, 32},
    {"l1_loss", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }, 32, 32},
    {"smooth_l1_loss", [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y); }, 32,
     32},
    {"huber_loss", [](const Tensor& x, const Tensor& y) { return huber_loss(x, y); }, 32, 32},
    {"kl_div", [](const Tensor& x, const Tensor& y) { return kl_div(x, y); }, 32, 32},
    {"binary_cross_entropy_with_logits",
     [](const Tensor& x, const Tensor& y) { return binary_cross_entropy_with_logits(x, y); }, 32,
     32},
    {"cross_entropy",
     [](const Tensor& x, const Tensor&) {
       return cross_entropy(x, zeros({4}, kInt64, x.device()));
     },
     32, 32},
    {"nll_loss",
     [](const Tensor& x, const Tensor&) { return nll_loss(x, zeros({4}, kInt64, x.device())); }, 32,
     32},
    {"cross_entropy of probabilities",
     [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); }, 32, 32},
    {"dot", [](const Tensor& x, const Tensor& y) { return dot(x[0], y[0]); }, 1, 0},
    {"atan2", atan2, 1, 0},
    {"cat",
     [](const Tensor& x, const Tensor& y) {
       return cat({x, y});
     },
     1, 1},
    {"stack",
     [](const Tensor& x, const Tensor& y) {
       return stack({x, y});
     },
     1, 1},
    {"add", [](const Tensor& x, const Tensor& y) { return x + y; }, 1, 1},
    {"relu", [](const Tensor& x, const Tensor&) { return relu(x); }, 0, 0},
    {"mean", [](const Tensor& x, const Tensor&) { return mean(x); }, 0, 0},
    {"sqrt", [](const Tensor& x, const Tensor&) { return sqrt(x); }, 0, 0},
    {"batch_norm",
     [](const Tensor& x, const Tensor& y) { return batch_norm(x, y[0], y[1], {}, {}, {}); }, 0, 0},
    {"max_pool2d",
     [](const Tensor& x, const Tensor&) {
       return max_pool2d(as_images(x), {2, 2}, {1, 1}, {0, 0});
     },
     0, 0},
    {"max_pool3d",
     [](const Tensor& x, const Tensor&) {
       return max_pool3d(as_images(x), {1, 2, 2});
     },
     0, 32},
    {"avg_pool3d",
     [](const Tensor& x, const Tensor&) {
       return avg_pool3d(as_images(x), {1, 2, 2});
     },
     0, 32},
    {"conv3d",
     [](const Tensor& x, const Tensor& y) {
       return conv3d(as_images(x).unsqueeze(0), y.reshape({1, 1, 1, 4, 4}), {}, 1, 2);
     },
     16, 16},
    {"ctc_loss",
     [](const Tensor& x, const Tensor&) {
       return ctc_loss(x, tensor<int64_t>({1}), std::vector<int64_t>{4}, std::vector<int64_t>{1});
     },
     32, 32},
    {"dropout", [](const Tensor& x, const Tensor&) { return dropout(x, 0.5); }, 0, 0},
};

TEST(Autocast, GivesEachFunctionItsPrecision) {
  for (const Device device : devices()) {
    for (const Dtype lower : {kFloat16, kBFloat16}) {
      const Guard guard(device, lower);
      for (const Function& f : kFunctions) {
        const int code = device.is_cpu() ? f.cpu : f.cuda;
        for (const Dtype dx : {kFloat32, lower}) {
          for (const Dtype dy : {kFloat32, lower}) {
            if (code == 0 && dx != dy) continue;  // not for autocast to settle
            const Tensor x = values({4, 4}).to(device).to(dx), y = values({4, 4}).to(device).to(dy);
            const Dtype wanted = code == 16 ? lower : code == 32 ? kFloat32 : promote(dx, dy);
            EXPECT_EQ(f.call(x, y).dtype(), wanted)
                << f.name << " of " << dx << ", " << dy << " on " << device;
          }
        }
      }
    }
  }
}

TEST(Autocast, GivesGradientsTheDtypeOfWhatWasGiven) {
  for (const Device device : devices()) {
    for (const Function& f : kFunctions) {
      const Tensor x = values({4, 4}).to(device).set_requires_grad();
      const Tensor y = values({4, 4}).to(device).set_requires_grad();
      Tensor result;
      {
        const Guard guard(device, kBFloat16);
        result = f.call(x, y);
      }
      result.backward(ones_like(result.detach()));
      EXPECT_EQ(x.grad().dtype(), kFloat32) << f.name << " on " << device;
      if (!y.grad().defined()) continue;
      EXPECT_EQ(y.grad().dtype(), kFloat32) << f.name << " on " << device;
    }
  }
}

TEST(Autocast, ComputesLikeCastingByHand) {
  for (const Device device : devices()) {
    manual_seed(3);
    const Tensor x = randn({5, 33}).to(device), w = randn({7, 33}).to(device).set_requires_grad();
    const Tensor by_hand = w.detach().clone().set_requires_grad();
    Tensor y;
    {
      const Guard guard(device, kBFloat16);
      y = linear(x, w);
    }
    const Tensor expected = linear(x.to(kBFloat16), by_hand.to(kBFloat16));
    EXPECT_TRUE(equal(y, expected)) << device;
    const Tensor dy = randn({5, 7}).to(device).to(kBFloat16);
    y.backward(dy);
    expected.backward(dy);
    EXPECT_TRUE(equal(w.grad(), by_hand.grad())) << device;
  }
}

TEST(Autocast, LeavesOtherTensorsAlone) {
  for (const Device device : devices()) {
    const Guard guard(device);
    const Tensor wide = ones({4, 4}, kFloat64, device), whole = ones({4, 4}, kInt64, device);
    EXPECT_EQ(matmul(wide, wide).dtype(), kFloat64);
    EXPECT_EQ(matmul(whole, whole).dtype(), kInt64);
    EXPECT_EQ(mse_loss(wide, wide).dtype(), kFloat64);
    EXPECT_EQ(sum(whole).dtype(), kInt64);
    EXPECT_EQ(exp(wide).dtype(), kFloat64);
    EXPECT_EQ(cat({wide, wide}).dtype(), kFloat64);
    EXPECT_EQ(matmul(ones({4, 4}, kFloat32, device), ones({4, 4}, kFloat32, device)).dtype(),
              device.is_cpu() ? kBFloat16 : kFloat16);
    const Tensor x = ones({4}, kFloat16, device);
    x.exp_();
    x.pow_(3);
    EXPECT_EQ(x.dtype(), kFloat16);
    const Guard brain(device, kBFloat16);
    EXPECT_EQ(matmul(x, x).dtype(), kBFloat16);
  }
}

TEST(Autocast, IsOfOneKindOfDevice) {
  const Tensor x = ones({2, 2});
  {
    const Guard guard(cuda_device());
    EXPECT_EQ(matmul(x, x).dtype(), kFloat32);
  }
  if (!cuda_is_available()) return;
  const Guard guard(kCpu);
  EXPECT_EQ(matmul(x.cuda(), x.cuda()).dtype(), kFloat32);
  const Guard both(cuda_device());
  EXPECT_EQ(matmul(x.cuda(), x.cuda()).dtype(), kFloat16);
  EXPECT_EQ(matmul(x, x).dtype(), kBFloat16);
}

// --- Guards -------------------------------------------------------------------------------------

TEST(Autocast, NestsAndCanBeSwitchedOff) {
  const Tensor x = ones({2, 2});
  const auto dtype = [&] { return matmul(x, x).dtype(); };
  EXPECT_EQ(dtype(), kFloat32);
  {
    const Guard outer(kCpu);
    EXPECT_EQ(dtype(), kBFloat16);
    {
      const Guard off(kCpu, {}, false);
      EXPECT_EQ(dtype(), kFloat32);
      {
        const Guard half(kCpu, kFloat16);
        EXPECT_EQ(dtype(), kFloat16);
      }
      EXPECT_EQ(dtype(), kFloat32);
    }
    EXPECT_EQ(dtype(), kBFloat16);
    EXPECT_THROW(
        {
          const Guard inner(kCpu, kFloat16);
          matmul(x, ones({3, 3}));
        },
        Error);
    EXPECT_EQ(dtype(), kBFloat16);
  }
  EXPECT_EQ(dtype(), kFloat32);
  EXPECT_EQ(amp::autocast_state(), AutocastState());
}

TEST(Autocast, IsOfOneThread) {
  const Guard guard(kCpu);
  Dtype elsewhere = kFloat64;
  std::thread([&] { elsewhere = matmul(ones({2, 2}), ones({2, 2})).dtype(); }).join();
  EXPECT_EQ(elsewhere, kFloat32);
}

TEST(Autocast, CanBeRestored) {
  AutocastState state;
  {
    const Guard guard(kCpu, kFloat16, true, false);
    state = amp::autocast_state();
  }
  EXPECT_TRUE(state.cpu.enabled);
  EXPECT_EQ(state.cpu.dtype, kFloat16);
  EXPECT_FALSE(state.cache_weights);
  const Guard brain(kCpu);
  {
    const Guard restored(state);
    EXPECT_EQ(amp::autocast_state(), state);
    EXPECT_EQ(matmul(ones({2, 2}), ones({2, 2})).dtype(), kFloat16);
  }
  EXPECT_EQ(matmul(ones({2, 2}), ones({2, 2})).dtype(), kBFloat16);
}

TEST(Autocast, DoesNotReachIntoBackward) {
  const Tensor w = ones({4, 4}).set_requires_grad();
  const Tensor y = matmul(ones({4, 4}), w);
  const Guard guard(kCpu);
  bool seen = false;
  y.register_hook([&](const Tensor& dy) {
    EXPECT_EQ(matmul(dy, dy).dtype(), kFloat32);
    const Guard again(kCpu);  // as recomputation does
    EXPECT_EQ(matmul(dy, dy).dtype(), kBFloat16);
    seen = true;
    return Tensor();
  });
  y.backward(ones({4, 4}));
  EXPECT_TRUE(seen);
  EXPECT_EQ(w.grad().dtype(), kFloat32);
  EXPECT_EQ(matmul(w, w).dtype(), kBFloat16);
}

TEST(Autocast, TellsWhatIsWrong) {
  EXPECT_EQ(error_of([] { const Guard guard(kCpu, kFloat32); }),
            "autocast: wrong dtype: got float32, expected float16 or bfloat16");
  AutocastState state;
  state.cuda.dtype = kInt64;
  EXPECT_THROW(const Guard guard(state), Error);
  EXPECT_EQ(amp::autocast_state(), AutocastState());
}

TEST(Autocast, BansALossOfProbabilitiesOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Tensor p = ones({2}).cuda() * 0.5;
  const Guard guard(p.device());
  EXPECT_EQ(error_of([&] { binary_cross_entropy(p, p); }),
            "binary_cross_entropy: not under autocast, where its inputs have lost too much: use "
            "binary_cross_entropy_with_logits, which includes the sigmoid, or an Autocast with "
            "enabled = false around it and float32 inputs");
  const Guard off(p.device(), {}, false);
  EXPECT_NO_THROW(binary_cross_entropy(p, p));
}

}  // namespace
}  // namespace wick::testing
