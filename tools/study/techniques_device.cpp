#include "wick/tools/study/technique.h"

// What only a GPU shows: section A of the articles' advice.
namespace wick::study {

namespace {

constexpr Case kGpuData = {"ResNet-18, 32x32 images, batches of 512, loaded as it trains",
                           [](Settings& s) {
                             s.source = "data";
                             s.model = "resnet18";
                             s.batch = 512;
                             s.workers = -1;
                           }};
constexpr Case kGpuTransformer = {"small vision transformer, batches of 256", [](Settings& s) {
                                    s.model = "vit";
                                    s.batch = 256;
                                  }};
constexpr Case kGpuMlp = {"MLP of 512 units, batches of 64, on the GPU",
                          [](Settings& s) { s.model = "mlp"; }};

const std::vector<Technique> kDeviceTechniques = {
    {.id = "use-the-gpu",
     .title = "Compute on the GPU",
     .articles = "001, 004",
     .page = "optimizations/transfers.md",
     .what = "Model and batches on the GPU, made there where they can be.",
     .knob = "--device cuda against cpu",
     .off = [](Settings& s) { s.device = "cpu"; },
     .on = nullptr,
     .cases = {kResNet},
     .needs_gpu = true,
     .against = {profile::Bound::kCompute, profile::Bound::kMemory}},
    {.id = "pinned-memory",
     .title = "Load into pinned memory",
     .articles = "000, 003, 004",
     .page = "optimizations/transfers.md",
     .what = "The GPU copies from page-locked memory by itself, while the host goes on. Article "
             "000 gives 1.22 times with one worker, 1.2 without pinning; article 003 found it "
             "slower, but copied nothing to a GPU.",
     .knob = "DataLoaderOptions::pin_memory (wick train sets it)",
     .off = [](Settings& s) { s.pinned = false; },
     .on = nullptr,
     .cases = {kGpuData},
     .needs_gpu = true,
     .against = {profile::Bound::kData}},
    {.id = "copy-ahead",
     .title = "Copy batches to the GPU ahead, as bytes",
     .articles = "003, 004",
     .page = "optimizations/transfers.md",
     .what = "The next batches are copied on a stream of their own while the GPU works on the "
             "last ones, a quarter as many bytes, and it crops, flips and normalises them itself.",
     .knob = "data::load_ahead (wick train uses it)",
     .off = [](Settings& s) { s.ahead = false; },
     .on = nullptr,
     .cases = {kGpuData},
     .needs_gpu = true,
     .against = {profile::Bound::kData}},
    {.id = "float16",
     .title = "Compute in float16 with a gradient scaler",
     .articles = "000, 001, 004",
     .page = "mixed_precision.md",
     .what = "Tensor cores multiply float16 several times as fast as float32. Its gradients would "
             "vanish without a scale on the loss.",
     .knob = "--amp fp16 (amp::Autocast and amp::GradScaler)",
     .off = nullptr,
     .on = [](Settings& s) { s.amp = "fp16"; },
     .cases = {kGpuData, kGpuTransformer},
     .needs_gpu = true,
     .against = {profile::Bound::kCompute, profile::Bound::kMemory}},
    {.id = "cuda-graph",
     .title = "Capture a step, and replay it by one call",
     .articles = "001",
     .page = "optimizations/cuda_graphs.md",
     .what = "A host queues kernel by kernel, and a GPU that is faster than that waits for it: in "
             "steps of many small kernels. torch.compile's \"reduce-overhead\" does so.",
     .knob = "--cuda-graph (CudaGraph, CapturedFunction)",
     .off = nullptr,
     .on = [](Settings& s) { s.cuda_graph = true; },
     .cases = {kGpuMlp, kGpuData},
     .needs_gpu = true,
     .against = {profile::Bound::kLaunches}},
};

}  // namespace

const std::vector<Technique>& device_techniques() { return kDeviceTechniques; }

}  // namespace wick::study
