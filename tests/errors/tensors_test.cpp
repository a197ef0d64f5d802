#include "wick/tests/errors/mistakes.h"
#include "wick/wick.h"

// The texts of the errors of tensors, gradients and modules.
namespace wick::testing {
namespace {

TEST(ErrorTexts, Shapes) {
  const Tensor x = ones({2, 3}), cube = ones({2, 3, 4});
  expect_texts({
      {"add",
       [&] {
         x + ones({4, 2});
       },
       "add: shapes do not broadcast: got [2, 3] and [4, 2]"},
      {"matmul",
       [&] {
         matmul(x, ones({2, 3}));
       },
       "matmul: inner sizes differ: got [2, 3] x [2, 3], expected [..., M, K] x [..., K, N]"},
      {"bmm", [&] { bmm(cube, cube); },
       "matmul: inner sizes differ: got [2, 3, 4] x [2, 3, 4], expected [..., M, K] x [..., K, N]"},
      {"linear",
       [&] {
         linear(x, ones({5, 4}));
       },
       "linear: features differ: got x [2, 3] and weight [5, 4], expected equal last sizes"},
      {"reshape",
       [&] {
         x.reshape({4, 2});
       },
       "reshape: sizes do not fit: got [4, 2] for a tensor of shape [2, 3] with 6 elements"},
      {"reshape with -1",
       [&] {
         x.reshape({-1, 4});
       },
       "reshape: sizes do not fit: got [-1, 4] for a tensor of shape [2, 3] with 6 elements"},
      {"view", [&] { cube.transpose(0, 2).view({24}); },
       "view: needs a copy: got shape [4, 3, 2] with strides [1, 4, 12], expected one that can be "
       "walked as [24]: use reshape"},
      {"cat",
       [&] {
         cat({x, ones({2, 4})}, 0);
       },
       "cat: shapes differ on an axis other than 0: got [2, 3] and [2, 4], expected equal sizes "
       "there"},
      {"stack",
       [&] {
         stack({x, ones({2, 4})}, 0);
       },
       "stack: shapes differ: got [2, 3] and [2, 4], expected equal ones"},
      {"axis", [&] { x.sum(2); }, "sum: axis out of range: got 2, expected one in [-2, 1]"},
  });
}

TEST(ErrorTexts, Indices) {
  const Tensor x = ones({2, 3});
  expect_texts({
      {"index", [&] { x[2]; },
       "select: index out of range: got 2 for axis 0 of shape [2, 3], expected one in [-2, 1]"},
      {"more indices than axes",
       [&] {
         x[{0, 0, 0}];
       },
       "index: too many indices: got 3 for shape [2, 3], expected at most 2"},
      {"mask",
       [&] {
         x[ones({3, 2}, kBool)];
       },
       "index: the indices do not fit: got bool [3, 2] for a tensor of shape [2, 3], expected its "
       "first axes"},
      {"expand",
       [&] {
         x.expand({4, 3});
       },
       "expand: sizes do not fit: got [4, 3] for a tensor of shape [2, 3], expected its own where "
       "they are not 1"},
      {"permute",
       [&] {
         x.permute({0, 0});
       },
       "permute: wrong axes: got [0, 0], expected each of the 2 axes of shape [2, 3] once"},
      {"item", [&] { x.item(); },
       "item: needs exactly one element: got shape [2, 3]: to_vector() gives all"},
      {"gather",
       [&] {
         gather(x, 1, zeros({3, 3}, kInt64));
       },
       "gather: index does not fit: got index [3, 3] for a tensor of shape [2, 3], expected as "
       "many axes and, but for axis 1, no larger sizes"},
      {"topk", [&] { topk(x, 4); },
       "topk: k out of range: got 4 for axis -1 of shape [2, 3], expected 0 to 3"},
      {"einsum",
       [&] {
         einsum("ij,jk->ik", {x, x});
       },
       "einsum: \"j\" has two sizes, 3 and 2: got \"ij,jk->ik\""},
      {"copy", [&] { x.copy_(ones({4})); }, "copy_: shapes do not broadcast: got [2, 3] and [4]"},
  });
}

TEST(ErrorTexts, ShapesOfLayers) {
  const Tensor x = ones({2, 3}), cube = ones({2, 3, 4});
  expect_texts({
      {"conv2d's channels",
       [&] {
         conv2d(ones({1, 3, 8, 8}), ones({4, 1, 3, 3}));
       },
       "conv2d: channels differ: got x [1, 3, 8, 8] and weight [4, 1, 3, 3] with 1 groups, "
       "expected 1 channels in x"},
      {"conv2d's kernel",
       [&] {
         conv2d(ones({1, 3, 2, 2}), ones({4, 3, 3, 3}));
       },
       "conv2d: kernel is larger than the padded image: got x [1, 3, 2, 2], weight [4, 3, 3, 3], "
       "padding [0, 0], dilation [1, 1]"},
      {"conv2d's rank",
       [&] {
         conv2d(ones({8, 8}), ones({4, 3, 3, 3}));
       },
       "conv2d: x needs 4 axes (N, C, H, W) or 3 (C, H, W): got shape [8, 8]"},
      {"max_pool2d",
       [&] {
         max_pool2d(ones({1, 1, 2, 2}), 3);
       },
       "max_pool2d: window is larger than the padded image: got x [1, 1, 2, 2], kernel_size [3, "
       "3], padding [0, 0], dilation [1, 1]"},
      {"layer_norm", [&] { layer_norm(x, {4}); },
       "layer_norm: the last axes of x must be normalized_shape: got shape [2, 3], expected [..., "
       "[4]]"},
      {"batch_norm of one value",
       [&] {
         batch_norm(ones({1, 3}), Tensor(), Tensor(), Tensor(), Tensor());
       },
       "batch_norm: needs more than one value per channel in training: got shape [1, 3], expected "
       "a larger batch: a loader's drop_last leaves out a last one of 1, and eval() needs no "
       "batch"},
      {"cross_entropy", [&] { cross_entropy(x, zeros({3}, kInt64)); },
       "cross_entropy: target has the wrong shape: got [3] for x of shape [2, 3], expected [2]"},
      {"mse_loss",
       [&] {
         mse_loss(x, ones({2, 4}));
       },
       "mse_loss: shapes do not broadcast: got [2, 3] and [2, 4]"},
      {"attention",
       [&] {
         scaled_dot_product_attention(ones({1, 2, 3, 4}), ones({1, 2, 3, 5}), cube);
       },
       "scaled_dot_product_attention: features of query and key differ: got [1, 2, 3, 4] and [1, "
       "2, 3, 5]"},
      {"nine axes",
       [&] {
         ones({1, 1, 1, 1, 1, 1, 1, 1, 1});
       },
       "shape: too many axes: expected at most 8"},
      {"a negative size", [&] { ones({-2}); },
       "empty: negative size: got shape [-2], expected sizes of 0 or more"},
      {"no tensor", [&] { relu(Tensor()); },
       "relu: a tensor is undefined: got a default-constructed one, expected one with elements"},
  });
}

// Functions made of others name themselves.
TEST(ErrorTexts, OwnNames) {
  const Tensor x = ones({2, 3}), image = ones({1, 2, 4, 4}), cube = ones({1, 3, 4});
  const Tensor query = ones({1, 4, 3, 8}), key = ones({1, 2, 3, 8});
  const std::string undefined =
      ": a tensor is undefined: got a default-constructed one, expected one with elements";
  expect_texts({
      {"item", [] { Tensor().item(); }, "item" + undefined},
      {"BatchNorm2d", [] { nn::BatchNorm2d(3)(Tensor()); }, "BatchNorm2d" + undefined},
      {"conv1d's channels",
       [&] {
         conv1d(cube, ones({2, 2, 1}));
       },
       "conv1d: channels differ: got x [1, 3, 1, 4] and weight [2, 2, 1, 1] with 1 groups, "
       "expected 2 channels in x"},
      {"conv_transpose1d's channels",
       [&] {
         conv_transpose1d(cube, ones({2, 2, 1}));
       },
       "conv_transpose1d: channels differ: got x [1, 3, 1, 4] and weight [2, 2, 1, 1], expected 2 "
       "channels in x"},
      {"scatter_reduce's index",
       [&] {
         scatter_reduce(x, 0, full({2, 3}, 7, kInt64), x, ScatterReduction::kSum);
       },
       "scatter_reduce: index out of range: got 7, expected one in [0, 1]"},
      {"scatter_reduce of bool",
       [&] {
         const Tensor flags = ones({2, 3}, kBool);
         scatter_reduce(flags, 0, zeros({2, 3}, kInt64), flags, ScatterReduction::kSum);
       },
       "scatter_reduce: bool tensors cannot be added"},
      {"index_reduce's index",
       [&] { index_reduce(x, 0, full({2}, 7, kInt64), x, ScatterReduction::kAmax); },
       "index_reduce: index out of range: got 7, expected one in [0, 1]"},
      {"index_fill's index", [&] { index_fill(x, 0, full({1}, 7, kInt64), 1); },
       "index_fill: index out of range: got 7, expected one in [0, 1]"},
      {"max_unpool2d's index",
       [&] {
         max_unpool2d(image, full({1, 2, 4, 4}, 1000, kInt64), 2);
       },
       "max_unpool2d: index out of range: got 1000, expected one in [0, 63]"},
      {"einsum's dtypes",
       [&] {
         einsum("ij,jk->ik", {x, ones({3, 2}, kFloat64)});
       },
       "einsum: dtypes differ: got float32 and float64"},
      {"heads of attention", [&] { scaled_dot_product_attention(query, key, key); },
       "scaled_dot_product_attention: shapes do not broadcast: got [1, 4] and [1, 2]"},
      {"heads of the value", [&] { scaled_dot_product_attention(query, query, key); },
       "scaled_dot_product_attention: shapes do not broadcast: got [1, 4] and [1, 2]"},
      {"dtypes of attention",
       [&] { scaled_dot_product_attention(query, query.to(kFloat64), query); },
       "scaled_dot_product_attention: dtypes differ: got float32 and float64"},
      {"a mask of attention",
       [&] {
         scaled_dot_product_attention(query, query, query, ones({3, 4}, kBool));
       },
       "scaled_dot_product_attention: attn_mask does not broadcast to the scores: got [3, 4], "
       "expected [1, 4, 3, 3]"},
      {"a mask of integers",
       [&] {
         scaled_dot_product_attention(query, query, query, ones({3, 3}, kInt64));
       },
       "scaled_dot_product_attention: attn_mask: got int64, expected bool or a floating dtype"},
  });
}

TEST(ErrorTexts, Dtypes) {
  const Tensor x = ones({2, 3}), whole = ones({2, 3}, kInt64);
  expect_texts({
      {"matmul",
       [&] {
         matmul(x, ones({3, 2}, kFloat64));
       },
       "matmul: dtypes differ: got float32 and float64"},
      {"softmax of integers", [&] { softmax(whole, 1); },
       "softmax: needs a floating dtype: got int64"},
      {"a gradient of integers", [&] { whole.set_requires_grad(); },
       "set_requires_grad: wrong dtype: got int64, expected a floating one"},
      {"data", [&] { x.data<double>(); },
       "data: wrong element type: asked for float64, the tensor is float32"},
      {"to_vector", [&] { x.to_vector<int64_t>(); },
       "data: wrong element type: asked for int64, the tensor is float32"},
      {"cross_entropy's target", [&] { cross_entropy(x, zeros({2})); },
       "cross_entropy: target has the wrong shape: got probabilities (float32) of shape [2], "
       "expected [2, 3], or class indices of shape [2]"},
      {"a class that is not there", [&] { cross_entropy(x, full({2}, 3, kInt64)); },
       "cross_entropy: target out of range: got class 3 at position 0, expected 0 to 2"},
      {"embedding's indices", [&] { embedding(x, ones({2})); },
       "embedding: indices must be int64 or int32: got float32"},
      {"embedding's range", [&] { embedding(x, full({1}, 2, kInt64)); },
       "embedding: index out of range: got 2, expected one in [0, 1]"},
      {"an index of floats", [&] { x[ones({2})]; },
       "index: indices must be int64 or int32: got float32"},
      {"add_ of floats to integers", [&] { whole.clone().add_(x); },
       "add_: the result's dtype does not fit in place: got int64, expected float32"},
      {"autocast in float32", [&] { amp::Autocast(kCpu, kFloat32); },
       "autocast: wrong dtype: got float32, expected float16 or bfloat16"},
      {"dropout", [&] { dropout(x, 1.5); },
       "dropout: probability out of range: got 1.5, expected 0 to 1"},
  });
}

TEST(ErrorTexts, Devices) {
  if (why_no_cuda().find("WICK_GPU=off") == std::string::npos) {
    GTEST_SKIP() << "this build has a GPU side";
  }
  const Tensor x = ones({2});
  expect_texts({
      {"to a GPU", [&] { x.cuda(); },
       "allocator: this build has no CUDA: got cuda:0, expected cpu: the CMake option "
       "WICK_GPU=cuda builds with CUDA"},
      {"pin_memory", [&] { x.pin_memory(); },
       "pinned memory: this build has no CUDA, and the CPU needs none: leave it off"},
      {"--device cuda", [&] { train::choose_device("cuda"); },
       "--device cuda: no GPU to use: this build has no GPU support (WICK_GPU=off): use --device "
       "cpu"},
      {"a device's name", [&] { train::choose_device("gpu"); },
       "device: unknown name: got \"gpu\", expected cpu, cuda or cuda:N"},
  });
}

TEST(ErrorTexts, Gradients) {
  const Tensor w = ones({3}).set_requires_grad();
  expect_texts({
      {"backward of three elements", [&] { (w * 2).backward(); },
       "backward: a tensor of more than one element needs a gradient to weight it: got shape [3]"},
      {"backward twice",
       [&] {
         const Tensor loss = (w * w).sum();
         loss.backward();
         loss.backward();
       },
       "backward: the graph was freed by an earlier backward at mul: pass retain_graph = true "
       "there to go through it twice"},
      {"backward without a graph", [&] { ones({1}).backward(); },
       "backward: this tensor requires no gradient: nothing it was made from does"},
      {"a leaf in place", [&] { w.add_(1); },
       "add_: a leaf that requires a gradient cannot be changed in place: use NoGrad, or detach "
       "it"},
      {"a saved tensor in place",
       [&] {
         const Tensor y = w * 2;
         const Tensor z = (y * y).sum();
         y.add_(1);
         z.backward();
       },
       "mul: a tensor needed by backward was changed in place: got version 1 of shape [3], "
       "expected version 0"},
      {"a view made before its base was changed",
       [&] {
         const Tensor y = zeros({3});
         const Tensor before = y.reshape({1, 3});
         y.add_(w);
         before.mul(before);
       },
       "mul: a view was made before its base was changed in place, which its gradient would miss: "
       "got one of shape [1, 3], expected it to be made again after the change"},
      {"a view made under NoGrad in place",
       [&] {
         Tensor view;
         {
           const NoGrad no_grad;
           view = w.reshape({1, 3});
         }
         view.mul_(2);
       },
       "mul_: a view made under NoGrad cannot be changed in place while gradients are recorded, as "
       "the gradient of its base would miss the change: got a view of shape [1, 3], expected a "
       "clone of it, or the change under NoGrad"},
      {"grad of what is not in the graph", [&] { grad({(w * 2).sum()}, {ones({3})}); },
       "grad: input 0 requires no gradient: got a tensor outside the graph, expected one in it"},
      {"a gradient of another shape", [&] { w.set_grad(ones({2})); },
       "set_grad: the gradient does not match the tensor: got float32 [2] on cpu, expected float32 "
       "[3] on cpu"},
      {"a result that is to be a leaf", [&] { (w * 2).set_requires_grad(false); },
       "set_requires_grad: only leaves can change: this tensor is the result of "
       "mul_scalar(other=2): detach it first"},
  });
}

struct Net : nn::Module {
  nn::Handle<nn::Linear> fc = add("fc", nn::Linear(3, 2));
};

TEST(ErrorTexts, Graphs) {
  expect_texts({
      {"elements read in a trace",
       [] {
         const auto f = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
           const Tensor y = in[0].exp();
           return {y * static_cast<const float*>(y.raw_data())[0]};
         };
         graph::trace(f, {ones({2})});
       },
       "trace: the host reads a traced tensor: got raw_data of float32[2] after the op exp, "
       "expected only ops, whose results a graph can compute for other inputs"},
  });
}

TEST(ErrorTexts, Modules) {
  nn::Linear linear(3, 2);
  TensorMap wrong = linear.state_dict();
  wrong.erase("bias");
  wrong["weight"] = ones({2, 4});
  wrong["scale"] = ones({1});
  expect_texts({
      {"an input of other features",
       [&] {
         linear(ones({1, 4}));
       },
       "linear: features differ: got x [1, 4] and weight [2, 3], expected equal last sizes"},
      {"images of other channels",
       [&] {
         nn::Conv2d(3, 8, 3)(ones({1, 1, 8, 8}));
       },
       "conv2d: channels differ: got x [1, 1, 8, 8] and weight [8, 3, 3, 3] with 1 groups, "
       "expected 3 channels in x"},
      {"groups", [&] { nn::Conv2d(3, 8, 3, {.groups = 2}); },
       "Conv2d: groups must divide both numbers of channels: got 2 for 3 and 8"},
      {"load_state_dict", [&] { linear.load_state_dict(wrong); },
       "load_state_dict: the state does not fit Linear(3, 2):\n  1 missing: bias\n  1 unexpected: "
       "scale\n  1 of another shape: weight (got [2, 4], expected [2, 3])"},
      {"a module without a forward",
       [&] {
         Net()(ones({1, 3}));
       },
       "Net: there is no forward of one tensor: got one, expected a class that overrides "
       "forward(const Tensor&), or a call of another forward"},
      {"replace", [&] { Net().replace("head", nn::Identity()); },
       "replace: Net: no such child: got \"head\", expected one of fc"},
      {"heads", [&] { nn::MultiheadAttention(10, 3); },
       "MultiheadAttention: heads must divide the width: got 3 for 10"},
  });
}

}  // namespace
}  // namespace wick::testing
