#include "wick/kernels/cuda/chain_source.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "wick/core/base/check.h"
#include "wick/kernels/loop_nest.h"

namespace wick::cuda {

namespace {

using Chain = ElementwiseChain;
constexpr int64_t kAligned = 16;

constexpr const char* kIncludes = R"(#include "wick/kernels/cuda/common/chain.h"
#include "wick/kernels/elementwise_ops_activation.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"
#include "wick/kernels/elementwise_ops_compare.h"
#include "wick/kernels/elementwise_ops_math.h"
#include "wick/kernels/elementwise_ops_shrink.h"
#include "wick/kernels/elementwise_ops_special.h"

namespace wick::cuda {

)";

// A thread takes kSize neighbouring elements at a time, as packs where it may.
constexpr const char* kKernel = R"(
extern "C" __global__ void __launch_bounds__(256)
    wick_chain(const __grid_constant__ Arguments a) {
  const int64_t numel = a.places.numel;
  for (int64_t i = global_thread() * kSize; i < numel; i += global_threads() * kSize) {
    if (a.places.is_aligned != 0 && i + kSize <= numel) {
      run_piece<kSize>(a, i);
    } else {
      for (int64_t j = i; j < i + kSize && j < numel; ++j) run_piece<1>(a, j);
    }
  }
}
WICK_EXPORT_KERNEL(wick_chain, Arguments)

}  // namespace wick::cuda
)";

std::string_view type_of(Dtype dtype) {
  switch (dtype) {
    case kFloat64: return "double";
    case kFloat32: return "float";
    case kFloat16: return "Half";
    case kBFloat16: return "BFloat16";
    case kInt64: return "int64_t";
    case kInt32: return "int32_t";
    case kUint8: return "uint8_t";
    case kBool: return "bool";
  }
  return "";
}

// How the views are walked: dense ones by the element's number, the others by a nest of their own.
class ChainWalk {
 public:
  ChainWalk(const Chain& chain, const View* views)
      : chain_(chain), nest_(pointers(views), count()) {
    for (int v = 0; v < count(); ++v) {
      if (!nest_.is_dense(v)) strided_.push_back(v);
    }
  }

  int count() const { return chain_.num_views; }
  const LoopNest<Chain::kMaxViews>& nest() const { return nest_; }
  const std::vector<int>& strided() const { return strided_; }
  // Its place among those that are not dense; -1 of a dense one.
  int place(int view) const {
    const auto found = std::find(strided_.begin(), strided_.end(), view);
    return found == strided_.end() ? -1 : static_cast<int>(found - strided_.begin());
  }
  // Whether all dense views begin where packs may.
  bool is_aligned() const {
    for (int v = 0; v < count(); ++v) {
      const auto address = reinterpret_cast<uintptr_t>(pointers_[v]->data);
      if (place(v) < 0 && address % kAligned != 0) return false;
    }
    return true;
  }

 private:
  const View* const* pointers(const View* views) {
    for (int v = 0; v < count(); ++v) pointers_[v] = &views[v];
    return pointers_;
  }

  const Chain& chain_;
  const View* pointers_[Chain::kMaxViews] = {};
  LoopNest<Chain::kMaxViews> nest_;
  std::vector<int> strided_;
};

// The parts of the source that differ.
class ChainWriter {
 public:
  ChainWriter(const Chain& chain, const View* views)
      : chain_(chain), views_(views), walk_(chain, views) {}

  std::string write() {
    text_ = kIncludes;
    write_arguments();
    add("constexpr int kSize = ", chain_pack(chain_, views_), ";\n\n");
    add("template <int kCount>\n__device__ void run_piece(const Arguments& a, int64_t i) {\n");
    add("  const uint64_t zero = a.places.zero;\n");
    write_packs();
    add("  WICK_UNROLL\n  for (int j = 0; j < kCount; ++j) {\n");
    for (int v = chain_.num_results; v < chain_.num_views; ++v) write_load(v);
    for (int s = 0; s < chain_.num_steps; ++s) write_step(s);
    add("  }\n");
    for (int v = 0; v < chain_.num_results; ++v) {
      add("  store_pack(static_cast<", type(v), "*>(a.places.views[", v, "]) + i, y", v, ");\n");
    }
    add("}\n", kKernel);
    return text_;
  }

 private:
  template <class... Parts>
  void add(const Parts&... parts) {
    text_ += concat(parts...);
  }
  std::string_view type(int view) const { return type_of(views_[view].dtype); }

  void write_arguments() {
    add("struct Arguments {\n  ChainPlaces<", chain_.num_views, ", ", walk_.strided().size(),
        "> places;\n");
    for (int s = 0; s < chain_.num_steps; ++s) {
      add("  ", chain_.steps[s].source.type, " f", s, ";\n");
    }
    add("};\n");
    for (int s = 0; s < chain_.num_steps; ++s) {
      const FunctorSource& f = chain_.steps[s].source;
      add("static_assert(sizeof(", f.type, ") == ", f.bytes, " && alignof(", f.type,
          ") == ", f.alignment, ");\n");
    }
    add("static_assert(sizeof(Arguments) == ", chain_arguments(chain_, views_).size() * 8, ");\n");
  }

  void write_packs() {
    for (int v = 0; v < chain_.num_views; ++v) {
      if (v < chain_.num_results) {
        add("  Pack<", type(v), ", kCount> y", v, ";\n");
      } else if (walk_.place(v) < 0) {
        add("  const auto x", v, " = load_pack<kCount>(static_cast<const ", type(v),
            "*>(a.places.views[", v, "]) + i);\n");
      }
    }
    if (walk_.strided().empty()) return;
    add("  const ChainOffsets<kCount, ", walk_.strided().size(), "> at(a.places, i);\n");
  }

  void write_load(int v) {
    add("    const ", type(v), " e", v, " = ");
    if (const int place = walk_.place(v); place < 0) {
      add("x", v, "[j];\n");
    } else {
      add("static_cast<const ", type(v), "*>(a.places.views[", v, "])[at.offset[j][", place,
          "]];\n");
    }
  }

  void write_step(int s) {
    const Chain::Step& step = chain_.steps[s];
    const std::string_view computing = type_of(step.compute);
    add("    const auto s", s, " = chain_step<", type_of(step.dtype), ", ",
        step.source.is_quick ? type_of(step.dtype) : computing, ", ", computing, ">(a.f", s,
        ", zero");
    for (int k = 0; k < step.arity; ++k) {
      const Chain::Source& x = step.x[k];
      add(x.view < 0 ? ", s" : ", e", x.view < 0 ? x.step : x.view);
    }
    add(");\n");
    if (step.view >= 0) add("    y", step.view, "[j] = s", s, ";\n");
  }

  const Chain& chain_;
  const View* views_;
  ChainWalk walk_;
  std::string text_;
};

}  // namespace

int chain_pack(const Chain& chain, const View* views) {
  int64_t widest = 1;
  for (int v = 0; v < chain.num_views; ++v) widest = std::max(widest, size_of(views[v].dtype));
  return static_cast<int>(kAligned / widest);
}

std::string chain_source(const Chain& chain, const View* views) {
  return ChainWriter(chain, views).write();
}

std::vector<uint64_t> chain_arguments(const Chain& chain, const View* views) {
  const ChainWalk walk(chain, views);
  std::vector<uint64_t> words = {static_cast<uint64_t>(walk.nest().numel),
                                 static_cast<uint64_t>(walk.nest().rank), walk.is_aligned(), 0};
  const auto append = [&](const int64_t* numbers) {
    words.insert(words.end(), numbers, numbers + kMaxRank);
  };
  append(walk.nest().sizes);
  for (int v = 0; v < chain.num_views; ++v) {
    words.push_back(reinterpret_cast<uintptr_t>(views[v].data));
  }
  for (const int v : walk.strided()) append(walk.nest().strides[v]);
  size_t end = words.size() * 8;
  for (int s = 0; s < chain.num_steps; ++s) {
    const FunctorSource& f = chain.steps[s].source;
    const size_t bytes = static_cast<size_t>(f.bytes), alignment = static_cast<size_t>(f.alignment);
    const size_t begin = (end + alignment - 1) / alignment * alignment;
    end = begin + bytes;
    words.resize((end + 7) / 8);
    std::memcpy(reinterpret_cast<char*>(words.data()) + begin, chain.steps[s].functor, bytes);
  }
  return words;
}

}  // namespace wick::cuda
