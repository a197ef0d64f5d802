#include "wick/tools/study/technique.h"

// What a step computes, and how: sections B, D, E and H of the articles' advice.
namespace wick::study {

namespace {

constexpr Case kTinyResNet = {"ResNet-20, 32x32 images, batches of 4",
                              [](Settings& s) { s.batch = 4; }};
constexpr Case kTinyMlp = {"MLP of 512 units, batches of 8", [](Settings& s) {
                             s.model = "mlp";
                             s.batch = 8;
                           }};
constexpr Case kEvaluate = {"evaluating a ResNet-20, batches of 64",
                            [](Settings& s) { s.work = "evaluate"; }};
constexpr Case kEvaluateMlp = {"evaluating an MLP, batches of 64", [](Settings& s) {
                                 s.work = "evaluate";
                                 s.model = "mlp";
                               }};
constexpr Case kVit = {"small vision transformer, batches of 16", [](Settings& s) {
                         s.model = "vit";
                         s.batch = 16;
                       }};
constexpr Case kResNet18 = {"ResNet-18, 32x32 images, batches of 16", [](Settings& s) {
                              s.model = "resnet18";
                              s.batch = 16;
                            }};

const std::vector<Technique> kStepTechniques = {
    {.id = "no-grad",
     .title = "Evaluate without recording gradients",
     .articles = "001, 004",
     .page = "optimizations/no_grad.md",
     .what = "What backward would need is not kept: less memory, and fewer writes.",
     .knob = "NoGrad or InferenceMode (wick eval does)",
     .off = [](Settings& s) { s.no_grad = false; },
     .on = nullptr,
     .cases = {kEvaluate, kEvaluateMlp}},
    {.id = "no-profiling-forward",
     .title = "Do not profile every step",
     .articles = "001",
     .page = "debugging.md",
     .what = "The case study of article 001 runs the model a second time in every step, under a "
             "profiler. That pass alone, without the profiler and its table, costs this much.",
     .knob = "profile a few steps, then take it out",
     .off = [](Settings& s) { s.second_forward = true; },
     .on = nullptr,
     .cases = {kResNet},
     .against = {profile::Bound::kOutside}},
    {.id = "no-anomaly-checks",
     .title = "Switch off checks for NaN",
     .articles = "000, 004",
     .page = "debugging.md",
     .what =
         "Anomaly detection looks through the results of every operation, forward and backward, "
         "and names the first with NaN. Articles switch it off at the top of every script; it "
         "is off unless somebody asks for it.",
     .knob = "--detect-anomaly (DetectAnomaly) for a search, not for whole runs",
     .off = [](Settings& s) { s.detect_anomaly = true; },
     .on = nullptr,
     .cases = {kSmallMlp, kResNet},
     .against = {profile::Bound::kLaunches}},
    {.id = "no-memory-records",
     .title = "Switch off records of memory",
     .articles = "000, 004",
     .page = "debugging.md",
     .what = "The allocator can note everything it does, for a viewer of memory.",
     .knob = "--memory-history only when wanted",
     .off = [](Settings& s) { s.memory_history = true; },
     .on = nullptr,
     .cases = {kSmallMlp, kResNet}},
    {.id = "read-loss-seldom",
     .title = "Do not read the loss in every step",
     .articles = "001, 004",
     .page = "optimizations/transfers.md",
     .what = "loss.item() waits for the device, which then waits for the host. On the CPU there "
             "is nobody to wait for: what it costs there is one read.",
     .knob = "read it every N steps; wick train reads a GPU's every 200 ms",
     .off = [](Settings& s) { s.read_loss = true; },
     .on = nullptr,
     .cases = {kSmallMlp, kResNet},
     .against = {profile::Bound::kOutside}},
    {.id = "compute-threads",
     .title = "Compute with all cores",
     .articles = "beyond",
     .page = "optimizations/threads.md",
     .what = "Kernels cut their work among threads, one for each core.",
     .knob = "--threads N",
     .off = [](Settings& s) { s.threads = 1; },
     .on = nullptr,
     .cases = {kResNet, kTinyResNet},
     .against = {profile::Bound::kCompute, profile::Bound::kMemory}},
    {.id = "data-parallel",
     .title = "Train copies of the model in parallel",
     .articles = "001, 003, 004",
     .page = "data_parallel.md",
     .what = "Each rank takes its part of the batch, and gradients are averaged while backward "
             "goes on. It is for several GPUs; two ranks with half of the cores each show what "
             "the exchange costs, and what small operations gain by not being cut up.",
     .knob = "dist::DistributedDataParallel",
     .off = nullptr,
     .on = [](Settings& s) { s.ranks = 2; },
     .cases = {kTinyResNet, kResNet},
     .against = {profile::Bound::kCompute, profile::Bound::kMemory}},
    {.id = "conv-autotuning",
     .title = "Measure which convolution algorithm is fastest",
     .articles = "000, 001, 003, 004",
     .page = "optimizations/conv_autotuning.md",
     .what = "Each shape of a convolution is measured by every algorithm when it is first seen. "
             "Without it a fixed rule chooses by the shape; what it gains is how wrong the rule "
             "was.",
     .knob = "--benchmark (set_benchmark), kept in the run folder's plans.txt",
     .off = nullptr,
     .on = [](Settings& s) { s.benchmark = true; },
     .cases = {kResNet18, kResNet},
     .against = {profile::Bound::kCompute}},
    {.id = "no-bias-before-norm",
     .title = "No bias before batch normalisation",
     .articles = "000, 004",
     .page = "optimizations/bias_before_norm.md",
     .what = "Normalisation takes the mean away, and with it any bias: adding it and summing its "
             "gradient are work for nothing.",
     .knob = "Conv2dOptions{.bias = false}; wick train --lint finds those left",
     .off = [](Settings& s) { s.bias = true; },
     .on = nullptr,
     .cases = {kResNet, kTinyResNet},
     .against = {profile::Bound::kMemory}},
    {.id = "channels-last",
     .title = "Store images channels-last",
     .articles = "beyond",
     .page = "optimizations/channels_last.md",
     .what = "Convolutions read all channels of a pixel together, so wick keeps images so between "
             "layers, whatever it is given. Off, the batch comes row-major: what is measured is "
             "the one copy that the first convolution then makes of it.",
     .knob = "the default everywhere; MemoryFormat::kChannelsLast",
     .off = [](Settings& s) { s.channels_last = false; },
     .on = nullptr,
     .cases = {kResNet, {"ResNet-20, 32x32 images, one image", [](Settings& s) { s.batch = 1; }}},
     .against = {profile::Bound::kMemory}},
    {.id = "batch-norm",
     .title = "Use batch normalisation",
     .articles = "004",
     .page = "optimizations/normalization.md",
     .what = "It costs time and memory in every step. What it buys, a training that needs fewer "
             "of them, shows in longer trainings than a study has time for.",
     .knob = "nn::BatchNorm2d",
     .off = [](Settings& s) { s.norm = false; },
     .on = nullptr,
     .cases = {kResNet}},
    {.id = "fused-norm",
     .title = "Normalise, add and rectify in one pass",
     .articles = "001",
     .page = "optimizations/fused_kernels.md",
     .what = "Batch norm, the shortcut's addition and ReLU read and write every activation once "
             "instead of three times: what article 001 hopes for from a compiler, done by hand.",
     .knob = "BatchNorm::forward_relu, forward_add_relu (the models of wick use them)",
     .off = [](Settings& s) { s.fused = false; },
     .on = nullptr,
     .cases = {kResNet, kTinyResNet},
     .against = {profile::Bound::kMemory}},
    {.id = "recomputed-norm",
     .title = "Make normalised activations again instead of keeping them",
     .articles = "004",
     .page = "optimizations/fused_kernels.md",
     .what = "The output of a batch norm follows from its input and a few numbers: backward makes "
             "it again, in the pass that reads it.",
     .knob = "set_recompute (on by default)",
     .off = [](Settings& s) { s.recompute_norm = false; },
     .on = nullptr,
     .cases = {kResNet, kSmallMlp}},
    {.id = "fused-loss",
     .title = "Cross entropy in one pass",
     .articles = "001",
     .page = "optimizations/fused_kernels.md",
     .what = "Log-softmax, the pick of the label and the mean in one kernel each way, instead of "
             "one for each. With ten classes there is little to pass over: it is calls that are "
             "saved.",
     .knob = "cross_entropy, not log_softmax and gather",
     .off = [](Settings& s) { s.fused_loss = false; },
     .on = nullptr,
     .cases = {kSmallMlp, kResNet},
     .against = {profile::Bound::kMemory, profile::Bound::kLaunches}},
    {.id = "compiled-step",
     .title = "Trace a step, and run it as a graph",
     .articles = "000, 001, 004",
     .page = "graphs.md",
     .what = "A traced step has no autograd to record and places its tensors in memory of its own. "
             "Elementwise operations that follow one another become one, and convolutions and "
             "linear layers take in what follows them. Articles name torch.jit and torch.compile.",
     .knob = "--compile full (graph::compile_step)",
     .off = nullptr,
     .on = [](Settings& s) { s.compile = "full"; },
     .cases = {kTinyMlp, kResNet},
     .against = {profile::Bound::kLaunches, profile::Bound::kMemory}},
    {.id = "bfloat16",
     .title = "Compute in bfloat16 where it is safe",
     .articles = "000, 001, 004",
     .page = "mixed_precision.md",
     .what = "Automatic mixed precision halves the bytes of activations; the arithmetic is faster "
             "where the processor has units for it (AMX, AVX-512 BF16; tensor cores). The "
             "articles promise at least twice the speed, of GPUs with tensor cores.",
     .knob = "--amp bf16 (amp::Autocast)",
     .off = nullptr,
     .on = [](Settings& s) { s.amp = "bf16"; },
     .cases = {kResNet18, kVit},
     .learning = {kLearnLenet},
     .against = {profile::Bound::kCompute, profile::Bound::kMemory}},
};

}  // namespace

const std::vector<Technique>& step_techniques() { return kStepTechniques; }

}  // namespace wick::study
