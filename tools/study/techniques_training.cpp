#include "wick/tools/study/technique.h"

// Batches, memory, optimizers and schedules: sections F and G of the articles' advice.
namespace wick::study {

namespace {

constexpr Case kSmallBatchMlp = {"MLP of 512 units, batches of 8", [](Settings& s) {
                                   s.model = "mlp";
                                   s.batch = 8;
                                 }};
constexpr Case kLearnLargeBatch = {"LeNet, batches of 512", [](Settings& s) {
                                     s.model = "lenet";
                                     s.source = "data";
                                     s.augment = "none";
                                     s.batch = 512;
                                     s.lr = 0.002;
                                   }};

const std::vector<Technique> kTrainingTechniques = {
    {.id = "batch-size",
     .title = "Larger batches",
     .articles = "000, 004",
     .page = "tuning.md",
     .what = "What a step costs once (launching kernels, the update, starting threads) is shared "
             "by more images, up to the batch from which throughput is flat. Article 004 tells of "
             "four times from 64 to 512, on one GPU; the learning rate has to follow.",
     .knob = "--batch-size; wick tune batch finds the largest and the fastest",
     .off = [](Settings& s) { s.batch = 1; },
     .on = [](Settings& s) { s.batch = 64; },
     .cases = {{"MLP of 512 units, batches of 1 against 64", [](Settings& s) { s.model = "mlp"; }},
               {"ResNet-20, batches of 1 against 64", [](Settings&) {}}},
     .against = {profile::Bound::kLaunches}},
    {.id = "huge-batch",
     .title = "As large a batch as memory holds",
     .articles = "000, 004",
     .page = "tuning.md",
     .what = "Beyond the point where throughput is flat a larger batch only takes memory, and "
             "caches no longer hold its activations.",
     .knob = "--batch-size 512 against 64",
     .off = [](Settings& s) { s.batch = 64; },
     .on = [](Settings& s) { s.batch = 512; },
     .cases = {{"MLP of 512 units", [](Settings& s) { s.model = "mlp"; }},
               {"LeNet", [](Settings& s) { s.model = "lenet"; }}},
     .against = {profile::Bound::kCommunication}},
    {.id = "gradient-accumulation",
     .title = "Take a batch in pieces",
     .articles = "004",
     .page = "optimizations/gradient_accumulation.md",
     .what = "Gradients of several small batches add up to those of a large one: the memory of a "
             "piece, the step of the whole.",
     .knob = "--accumulate 4 (optim::accumulate)",
     .off = nullptr,
     .on = [](Settings& s) { s.accumulate = 4; },
     .cases = {{"ResNet-20, 32x32 images, batches of 128", [](Settings& s) { s.batch = 128; }},
               kSmallMlp},
     .against = {profile::Bound::kCommunication}},
    {.id = "activation-checkpointing",
     .title = "Make activations again in backward",
     .articles = "004",
     .page = "recomputation.md",
     .what = "Between its ends a block's activations are let go after forward and computed a "
             "second time: about a third more time for less memory.",
     .knob = "--checkpoint-activations on, or budget=SIZE",
     .off = nullptr,
     .on = [](Settings& s) { s.checkpoint = true; },
     .cases = {{"ResNet-20, 32x32 images, batches of 128", [](Settings& s) { s.batch = 128; }}}},
    {.id = "keep-the-cache",
     .title = "Do not empty the allocator's cache",
     .articles = "001, 003",
     .page = "memory.md",
     .what = "Article 001 recommends empty_cache against running out of memory. The allocator "
             "gives cached memory back by itself before it fails; emptied in every step, all of "
             "it must be had again, page by page.",
     .knob = "no empty_cache in the loop",
     .off = [](Settings& s) { s.empty_cache = true; },
     .on = nullptr,
     .cases = {kResNet, kSmallMlp},
     .against = {profile::Bound::kLaunches}},
    {.id = "alias-memory",
     .title = "Use memory where it is",
     .articles = "004",
     .page = "optimizations/transfers.md",
     .what = "as_tensor and from_blob make a tensor of the caller's memory; tensor() copies it.",
     .knob = "as_tensor or from_blob, not tensor",
     .off = [](Settings& s) { s.copy_blob = true; },
     .on = nullptr,
     .cases = {{"64 images of 224x224 become a tensor and are read once",
                [](Settings& s) {
                  s.work = "wrap";
                  s.image = 224;
                }},
               {"one image of 32x32",
                [](Settings& s) {
                  s.work = "wrap";
                  s.batch = 1;
                }}},
     .against = {profile::Bound::kLaunches}},
    {.id = "fused-optimizer",
     .title = "Update all parameters in a few passes",
     .articles = "004",
     .page = "optimizations/fused_optimizer.md",
     .what = "AdamW as it is written down is some ten operations for each parameter, each with a "
             "pass over memory. Fused, all parameters are read and written once. Article 004 "
             "gives 5 % for Apex's.",
     .knob = "the optimizers of wick are fused",
     .off = [](Settings& s) { s.fused_optimizer = false; },
     .on = nullptr,
     .cases = {kSmallBatchMlp, kResNet},
     .against = {profile::Bound::kMemory, profile::Bound::kLaunches}},
    {.id = "set-to-none",
     .title = "Forget gradients instead of setting them to zero",
     .articles = "000, 004",
     .page = "optimizations/set_to_none.md",
     .what = "The first gradient is then written instead of added to zeros: a write less, and a "
             "read.",
     .knob = "zero_grad() (set_to_none is the default)",
     .off = [](Settings& s) { s.set_to_none = false; },
     .on = nullptr,
     .cases = {kSmallBatchMlp, kResNet},
     .against = {profile::Bound::kMemory}},
    {.id = "sparse-gradients",
     .title = "Update only the rows of an embedding that were read",
     .articles = "003",
     .page = "optimizations/sparse_gradients.md",
     .what = "A step reads a few hundred rows of a table. A dense gradient of it is as large as "
             "the table, mostly zeros, and the update passes over all of it and its moments; a "
             "sparse one holds the rows that were read, and the update goes to them alone.",
     .knob = "nn::Embedding(rows, width, {.sparse = true}) with optim::SparseAdam",
     .off = [](Settings& s) { s.sparse = false; },
     .on = nullptr,
     .cases = {{"200,000 rows of 64, batches of 512",
                [](Settings& s) {
                  s.work = "embed";
                  s.batch = 512;
                }}},
     .against = {profile::Bound::kMemory}},
    {.id = "fused-clipping",
     .title = "Clip gradients within the update",
     .articles = "004",
     .page = "optimizations/clipping.md",
     .what = "Clipping is a factor that the update multiplies by. clip_grad_norm_ writes all "
             "gradients once more.",
     .knob = "--clip-norm (StepControl::max_norm), not clip_grad_norm_",
     .off = [](Settings& s) { s.clip = "separate"; },
     .on = [](Settings& s) { s.clip = "fused"; },
     .cases = {kSmallBatchMlp, kResNet},
     .against = {profile::Bound::kMemory, profile::Bound::kLaunches}},
    {.id = "clipping",
     .title = "Clip gradients",
     .articles = "004",
     .page = "optimizations/clipping.md",
     .what = "A step that would go too far is shortened. It costs the norm of all gradients.",
     .knob = "--clip-norm 1",
     .off = nullptr,
     .on = [](Settings& s) { s.clip = "fused"; },
     .cases = {kSmallBatchMlp, kResNet},
     .learning = {kLearnLenet}},
    {.id = "averaged-weights",
     .title = "Evaluate averaged weights",
     .articles = "beyond",
     .page = "optimizations/averaged_weights.md",
     .what = "An exponential moving average of the weights evaluates better than the last ones; "
             "it costs a pass over them.",
     .knob = "--ema 0.99",
     .off = nullptr,
     .on = [](Settings& s) { s.ema = 0.99; },
     .cases = {kSmallBatchMlp, kResNet},
     .learning = {kLearnLenet}},
    {.id = "adamw",
     .title = "AdamW instead of Adam",
     .articles = "003, 004",
     .page = "optimizations/optimizers.md",
     .what = "Weight decay beside the adaptive step, not within it. A step costs the same.",
     .knob = "--optimizer adamw against adam",
     .off = [](Settings& s) { s.optimizer = "adam"; },
     .on = nullptr,
     .cases = {kSmallMlp},
     .learning = {kLearnLenet}},
    {.id = "sgd",
     .title = "SGD with momentum instead of AdamW",
     .articles = "001, 003",
     .page = "optimizations/optimizers.md",
     .what = "One state per parameter instead of two. Article 003 calls it faster than Adam; a "
             "step is, a training need not be.",
     .knob = "--optimizer sgd against adamw",
     .off = nullptr,
     .on =
         [](Settings& s) {
           s.optimizer = "sgd";
           s.lr = 0.05;
           s.weight_decay = 5e-4;
         },
     .cases = {kSmallBatchMlp, kResNet},
     .learning = {kLearnLenet}},
    {.id = "lamb",
     .title = "An optimizer for large batches",
     .articles = "000, 004",
     .page = "optimizations/optimizers.md",
     .what = "LAMB scales each layer's update by the norm of its weights, so that large batches "
             "can have large rates. It measures norms in every step.",
     .knob = "--optimizer lamb; also lars, novograd",
     .off = nullptr,
     .on =
         [](Settings& s) {
           s.optimizer = "lamb";
           s.lr = 0.02;
         },
     .cases = {kSmallMlp},
     .learning = {kLearnLargeBatch}},
    {.id = "one-cycle",
     .title = "One-cycle learning rate",
     .articles = "004",
     .page = "optimizations/schedules.md",
     .what = "The rate rises to a peak and falls to nearly nothing, the momentum the other way. "
             "Article 004 tells of a tenth of the steps for the same accuracy; here both sides "
             "have the same number of steps, and what differs is the loss at the end.",
     .knob = "--schedule onecycle at three times the rate, against constant",
     .off = nullptr,
     .on =
         [](Settings& s) {
           s.schedule = "onecycle";
           s.lr *= 3;
         },
     .cases = {kSmallMlp},
     .learning = {kLearnLenet}},
    {.id = "cosine-decay",
     .title = "Let the learning rate fall",
     .articles = "000, 003",
     .page = "optimizations/schedules.md",
     .what = "The rate follows a cosine down to 0.",
     .knob = "--schedule cosine against constant",
     .off = nullptr,
     .on = [](Settings& s) { s.schedule = "cosine"; },
     .cases = {kSmallMlp},
     .learning = {kLearnLenet}},
    {.id = "linear-scaling",
     .title = "Raise the learning rate with the batch",
     .articles = "000, 004",
     .page = "tuning.md",
     .what = "With eight times the batch there are an eighth of the steps: SGD's rate is "
             "multiplied by eight too.",
     .knob = "--lr; wick tune batch suggests it",
     .off = nullptr,
     .on = [](Settings& s) { s.lr *= 8; },
     .cases = {},
     .learning = {{"LeNet and SGD, batches of 512",
                   [](Settings& s) {
                     s.model = "lenet";
                     s.source = "data";
                     s.batch = 512;
                     s.optimizer = "sgd";
                     s.lr = 0.01;
                     s.weight_decay = 5e-4;
                   }}}},
    {.id = "label-smoothing",
     .title = "Smooth labels",
     .articles = "beyond",
     .page = "optimizations/label_smoothing.md",
     .what = "A part of the target goes to all classes. Within the fused loss it costs nothing; "
             "its loss is another one, so that only accuracies compare.",
     .knob = "--label-smoothing 0.1",
     .off = nullptr,
     .on = [](Settings& s) { s.label_smoothing = 0.1; },
     .cases = {kSmallMlp},
     .learning = {kLearnLenet}},
    {.id = "normalized-input",
     .title = "Normalise the input",
     .articles = "004",
     .page = "optimizations/normalization.md",
     .what = "Off, the network gets bytes from 0 to 255 as they are.",
     .knob = "data::Normalize; wick train --lint finds inputs that are not",
     .off = [](Settings& s) { s.normalize = "none"; },
     .on = nullptr,
     .cases = {},
     .learning = {kLearnLenet}},
};

}  // namespace

const std::vector<Technique>& training_techniques() { return kTrainingTechniques; }

}  // namespace wick::study
