#include "wick/tools/study/technique.h"

// Loading: section C of the articles' advice.
namespace wick::study {

namespace {

constexpr Case kLoadData = {"the loader alone, cropped and flipped images of 32x32",
                            [](Settings& s) {
                              s.work = "load";
                              s.source = "data";
                            }};
constexpr Case kLoadPhotos = {"the loader alone, JPEG files of 500x375 to 112x112",
                              [](Settings& s) {
                                s.work = "load";
                                s.source = "photos";
                                s.image = 112;
                                s.batch = 16;
                              }};
constexpr Case kTrainData = {"ResNet-20 on images loaded as it trains",
                             [](Settings& s) { s.source = "data"; }};
constexpr Case kMlpData = {"MLP on images loaded as it trains", [](Settings& s) {
                             s.source = "data";
                             s.model = "mlp";
                           }};

const std::vector<Technique> kDataTechniques = {
    {.id = "workers",
     .title = "Load data beside training",
     .articles = "000, 001, 003, 004",
     .page = "optimizations/workers.md",
     .what = "With no worker the training thread reads, decodes and augments each batch itself, "
             "and computes nothing meanwhile. A worker does it ahead. Wick's workers are threads: "
             "they share the data set and copy nothing between processes.",
     .knob = "--workers N (DataLoaderOptions::num_workers), 0 against 1",
     .off = [](Settings& s) { s.workers = 0; },
     .on = [](Settings& s) { s.workers = 1; },
     .cases = {{"ResNet-20 on JPEG files of 500x375, one computing thread",
                [](Settings& s) {
                  s.source = "photos";
                  s.image = 32;
                  s.batch = 16;
                  s.threads = 1;
                }},
               kTrainData},
     .against = {profile::Bound::kData}},
    {.id = "more-workers",
     .title = "Use several workers",
     .articles = "000, 003, 004",
     .page = "optimizations/workers.md",
     .what = "More workers help as long as loading is the bottleneck and cores are free; beyond "
             "that they take the cores that compute. Article 000 says the more the better, "
             "article 004 four for each GPU; article 003 measures an optimum, as the sweep does.",
     .knob = "--workers 2 against --workers 1",
     .off = [](Settings& s) { s.workers = 1; },
     .on = [](Settings& s) { s.workers = 2; },
     .cases = {kLoadPhotos, kTrainData},
     .against = {profile::Bound::kData}},
    {.id = "auto-workers",
     .title = "Let the loader find its number of workers",
     .articles = "003, 004",
     .page = "optimizations/workers.md",
     .what = "The loader begins with one worker and adds threads as long as batches are waited "
             "for and it helps, instead of a rule of thumb.",
     .knob = "--workers auto (the default) against 0",
     .off = [](Settings& s) { s.workers = 0; },
     .on = [](Settings& s) { s.workers = -1; },
     .cases = {kLoadPhotos, kTrainData},
     .against = {profile::Bound::kData}},
    {.id = "in-place-batches",
     .title = "Write samples straight into the batch",
     .articles = "000",
     .page = "optimizations/batches.md",
     .what = "A collate function gets samples as tensors of their own and stacks them: an "
             "allocation and a copy for each. Without one, each sample is written to its place "
             "in the batch.",
     .knob = "leave DataLoaderOptions::collate_fn empty",
     .off = [](Settings& s) { s.collate = true; },
     .on = nullptr,
     .cases = {kLoadData, kTrainData},
     .against = {profile::Bound::kData}},
    {.id = "packed-file",
     .title = "Keep small images in one file",
     .articles = "004",
     .page = "optimizations/image_files.md",
     .what = "Thousands of small files cost an open, a read and a decoding each. A packed file is "
             "mapped into memory, with its pixels ready.",
     .knob = "wick data pack, then --data packed",
     .off = [](Settings& s) { s.source = "files"; },
     .on = [](Settings& s) { s.source = "packed"; },
     .cases = {{"the loader alone, 1000 JPEG files of 32x32", [](Settings& s) { s.work = "load"; }},
               kResNet},
     .against = {profile::Bound::kData}},
    {.id = "reduced-jpeg",
     .title = "Decode JPEGs only as large as they are needed",
     .articles = "001",
     .page = "optimizations/image_files.md",
     .what = "RandomResizedCrop cuts a window and shrinks it. A JPEG can be decoded at a half, a "
             "quarter or an eighth of its size, and only where the window is.",
     .knob = "transforms that cut come first in the chain (data::Transform::window)",
     .off = [](Settings& s) { s.whole_jpeg = true; },
     .on = nullptr,
     .cases = {kLoadPhotos},
     .against = {profile::Bound::kData}},
    {.id = "normalize-in-loader",
     .title = "Normalise images in the workers",
     .articles = "001, 003, 004",
     .page = "optimizations/batches.md",
     .what = "Bytes become normalised floats through a table while the batch is written; as tensor "
             "operations of the training step it is three more passes over the batch.",
     .knob = "a data::Normalize in the data set, not tensor arithmetic in the step",
     .off = [](Settings& s) { s.normalize = "step"; },
     .on = nullptr,
     .cases = {kMlpData, kTrainData},
     .against = {profile::Bound::kData}},
    {.id = "persistent-workers",
     .title = "Keep workers between epochs",
     .articles = "000",
     .page = "optimizations/workers.md",
     .what = "A worker that is kept between epochs goes on into the next one, so that an epoch "
             "does not begin with an empty queue.",
     .knob = "persistent_workers (on by default, unlike PyTorch's)",
     .off = [](Settings& s) { s.persistent = false; },
     .on = nullptr,
     .cases = {{"MLP, epochs of 4 batches of JPEG files of 500x375",
                [](Settings& s) {
                  s.source = "photos";
                  s.model = "mlp";
                  s.image = 32;
                  s.batch = 16;
                }},
               kTrainData},
     .against = {profile::Bound::kData}},
    {.id = "shuffle",
     .title = "Shuffle",
     .articles = "000, 001, 003",
     .page = "optimizations/augmentation.md",
     .what = "Every epoch in another order. It costs nothing to speak of with images in memory; "
             "it is here for what it does to the loss.",
     .knob = "DataLoaderOptions::shuffle",
     .off = [](Settings& s) { s.shuffle = false; },
     .on = nullptr,
     .cases = {kLoadData},
     .learning = {kLearnLenet}},
    {.id = "augmentation",
     .title = "Augment images",
     .articles = "001",
     .page = "optimizations/augmentation.md",
     .what = "Random crops and flips make more of the same images; they cost the workers time and "
             "a short training some of its fit.",
     .knob = "--augment basic against none",
     .off = [](Settings& s) { s.augment = "none"; },
     .on = nullptr,
     .cases = {kLoadData, kTrainData},
     .learning = {{"LeNet, batches of 64",
                   [](Settings& s) {
                     s.model = "lenet";
                     s.source = "data";
                     s.lr = 0.001;
                   }}}},
};

}  // namespace

const std::vector<Technique>& data_techniques() { return kDataTechniques; }

}  // namespace wick::study
