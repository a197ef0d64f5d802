#include "wick/tools/study/trained_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/core/graph/trace.h"
#include "wick/core/serialize.h"
#include "wick/data/data.h"
#include "wick/train/classifier.h"

namespace wick::study {

namespace {

using nlohmann::json;
constexpr uint64_t kMostFileBytes = uint64_t{256} << 20;
constexpr size_t kMostWorst = 24;
constexpr int64_t kSheetImages = 8, kSheetEpochs = 8;

void read_metrics(const std::string& path, TrainedRun& run) {
  const std::string text = read_file(path, kMostFileBytes);
  size_t start = 0;
  int64_t number = 0;
  for (size_t end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    ++number;
    const json line = json::parse(text.begin() + static_cast<std::ptrdiff_t>(start),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                  /*allow_exceptions=*/false);
    const bool good = line.is_object() && line.contains("step") && line["step"].is_number();
    WICK_CHECK(good, "report: ", path, ": line ", number, " is not one of a run's metrics");
    for (const auto& [key, value] : line.items()) {
      if (key == "step" || !value.is_number()) continue;
      run.curves[key].emplace_back(line["step"].get<double>(), value.get<double>());
    }
  }
}

// Runs of before this was written have none.
void read_environment(const std::string& path, TrainedRun& run) {
  if (!std::filesystem::exists(path)) return;
  const json values =
      json::parse(read_file(path, kMostFileBytes), nullptr, /*allow_exceptions=*/false);
  WICK_CHECK(values.is_object(), "report: ", path, " is not a run's environment");
  for (const auto& [key, value] : values.items()) {
    if (value.is_string()) run.environment[key] = value.get<std::string>();
  }
}

// Normalised floats [C, H, W] as the bytes they were, height by width by channel.
void unnormalize(const Tensor& image, const data::Preparation& preparation, uint8_t* out,
                 int64_t row_pixels) {
  const Shape& shape = image.shape();
  const std::vector<float> values = image.to_vector<float>();
  for (int64_t c = 0; c < shape[0]; ++c) {
    const auto channel = static_cast<size_t>(c);
    for (int64_t y = 0; y < shape[1]; ++y) {
      for (int64_t x = 0; x < shape[2]; ++x) {
        const float value = values[static_cast<size_t>((c * shape[1] + y) * shape[2] + x)];
        const float unit = value * preparation.std[channel] + preparation.mean[channel];
        out[(y * row_pixels + x) * shape[0] + c] =
            static_cast<uint8_t>(std::clamp(std::lround(unit * 255), 0L, 255L));
      }
    }
  }
}

bool can_be_read(const data::Dataset& samples, int64_t index) {
  try {
    samples.get(index, PhiloxStream(0, 0));
    return true;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

// What training sees of its first images in several epochs: a row for each image.
data::Image augmentation_sheet(const data::Dataset& train, const data::Preparation& preparation,
                               int64_t seed) {
  const Shape shape = train.fields()[0].shape;
  const int64_t rows = std::min(kSheetImages, train.size());
  data::Image sheet{rows * shape[1], kSheetEpochs * shape[2], shape[0], {}};
  sheet.pixels.resize(static_cast<size_t>(sheet.height * sheet.width * sheet.channels));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t epoch = 0; epoch < kSheetEpochs; ++epoch) {
      const int64_t index = row * train.size() / rows;
      if (!can_be_read(train, index)) continue;  // its place stays black
      const std::vector<Tensor> sample =
          train.get(index, PhiloxStream(static_cast<uint64_t>(seed),
                                        static_cast<uint64_t>(row * kSheetEpochs + epoch)));
      const int64_t first = (row * shape[1] * sheet.width + epoch * shape[2]) * shape[0];
      unnormalize(sample[0], preparation, sheet.pixels.data() + first, sheet.width);
    }
  }
  return sheet;
}

data::Image stored_image(const data::ImageSource& source, int64_t index) {
  std::string buffer;
  const data::StoredImage stored = source.read(index, buffer);
  data::Image image;
  if (stored.channels == 0) {
    data::decode_image(stored.bytes, source.name(index), image);
  } else {
    image = {stored.size.height,
             stored.size.width,
             stored.channels,
             {stored.bytes.begin(), stored.bytes.end()}};
  }
  source.confirm();
  return image;
}

// The samples of a data set; with `skips` those that can be read.
class Readable final : public data::Dataset {
 public:
  Readable(std::shared_ptr<const data::Dataset> all, bool skips) : all_(std::move(all)) {
    for (int64_t i = 0; i < all_->size(); ++i) {
      if (!skips || can_be_read(*all_, i)) numbers_.push_back(i);
    }
  }
  int64_t size() const override { return static_cast<int64_t>(numbers_.size()); }
  const std::vector<data::Field>& fields() const override { return all_->fields(); }
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    all_->read(number(index), random, out);
  }
  data::Sample get(int64_t index, PhiloxStream random) const override {
    return all_->get(number(index), random);
  }
  /// Of a sample among all.
  int64_t number(int64_t index) const { return numbers_[static_cast<size_t>(index)]; }

 private:
  std::shared_ptr<const data::Dataset> all_;
  std::vector<int64_t> numbers_;
};

// Guesses and losses of the readable test images, in their order.
struct Guesses {
  std::vector<int64_t> labels, guesses;
  std::vector<double> losses, confidences;
};

Guesses guess_all(nn::Module& model, const std::shared_ptr<const Readable>& test,
                  const data::DataLoaderOptions& options, Device device) {
  const InferenceMode inference;
  model.eval();
  data::Prefetcher loader = data::load_ahead(test, options, device);
  Guesses all;
  while (const std::optional<data::Batch> batch = loader.next()) {
    const Tensor logits = model((*batch)[0]).to(kFloat32);
    const Tensor probability = softmax(logits, 1);
    const auto best = probability.max(1);
    const auto append = [](auto& to, const auto& values) {
      to.insert(to.end(), values.begin(), values.end());
    };
    append(all.labels, (*batch)[1].to_vector<int64_t>());
    append(all.guesses, probability.argmax(1).to_vector<int64_t>());
    append(all.confidences, best.values.to_vector<float>());
    append(
        all.losses,
        cross_entropy(logits, (*batch)[1], {.reduction = LossReduction::kNone}).to_vector<float>());
  }
  return all;
}

void trace_model(nn::Module& model, const std::shared_ptr<const Readable>& test,
                 const data::DataLoaderOptions& options, Device device, Examination& result) {
  const InferenceMode inference;
  model.eval();
  data::Prefetcher loader = data::load_ahead(test, options, device);
  const std::optional<data::Batch> batch = loader.next();
  if (!batch) return;
  try {
    result.graph =
        graph::trace([&](const std::vector<Tensor>& in) { return std::vector{model(in[0])}; },
                     {(*batch)[0]}, model.state_dict());
  } catch (const Error& error) {
    result.why_no_graph = error.what();
  }
}

void count_and_rank(const Guesses& all, const Readable& test, const data::ImageSource& images,
                    Examination& result) {
  const size_t classes = result.classes.size();
  result.confusion.assign(classes, std::vector<int64_t>(classes));
  std::vector<size_t> wrong;
  for (size_t i = 0; i < all.labels.size(); ++i) {
    const auto label = static_cast<size_t>(all.labels[i]);
    const auto guess = static_cast<size_t>(all.guesses[i]);
    ++result.confusion[label][guess];
    ++result.images;
    if (label == guess) {
      ++result.right;
    } else {
      wrong.push_back(i);
    }
  }
  const auto badness = [&](size_t i) {  // NaN is as bad as can be
    return std::isnan(all.losses[i]) ? HUGE_VALF : all.losses[i];
  };
  std::sort(wrong.begin(), wrong.end(),
            [&](size_t a, size_t b) { return badness(a) > badness(b); });
  wrong.resize(std::min(wrong.size(), kMostWorst));
  for (const size_t i : wrong) {
    const int64_t index = test.number(static_cast<int64_t>(i));
    result.worst.push_back({stored_image(images, index), images.name(index),
                            result.classes[static_cast<size_t>(all.labels[i])],
                            result.classes[static_cast<size_t>(all.guesses[i])], all.losses[i],
                            all.confidences[i]});
  }
}

}  // namespace

TrainedRun read_run(const std::string& folder) {
  TrainedRun run;
  run.folder = folder;
  const std::filesystem::path path = std::filesystem::path(folder + "/").parent_path();
  run.name = path.filename().string();
  if (run.name.empty() || run.name == ".") run.name = folder;
  const train::RunFolder files = train::RunFolder::open(folder);
  run.config = nlohmann::ordered_json::parse(to_json(train::recipe_from_json(files.config_file())));
  WICK_CHECK(std::filesystem::exists(files.metrics_file()), "report: ", folder,
             " has no metrics.jsonl: nothing was trained in it yet");
  read_metrics(files.metrics_file(), run);
  read_environment(files.environment_file(), run);
  return run;
}

Examination examine(const std::string& folder, const std::string& data_dir) {
  const train::RunFolder files = train::RunFolder::open(folder);
  train::Recipe recipe = train::resolve(train::recipe_from_json(files.config_file()));
  if (!data_dir.empty()) recipe.data.dir = data_dir;
  const bool skips = recipe.loading.on_bad_sample == "skip";
  recipe.loading.on_bad_sample = "fail";
  train::check(recipe);
  recipe.run.device = "auto";
  recipe.run.resume = true;  // what it has no use of was told when it began
  train::Classifier classifier(recipe);
  classifier.model()->load_state_dict(load_safetensors(files.weights_file()));
  const data::TrainTest& data = classifier.data();
  const data::LabelledImages stored = data::open_images(recipe.data.name, recipe.data.dir);
  Examination result;
  result.classes = data.class_names;
  // Guesses and images go by number.
  const auto test = std::make_shared<const Readable>(data.test, skips);
  const Guesses guesses =
      guess_all(*classifier.model(), test, classifier.test_loading(), classifier.device());
  count_and_rank(guesses, *test, *stored.test, result);
  trace_model(*classifier.model(), test, classifier.test_loading(), classifier.device(), result);
  result.augmented = augmentation_sheet(*data.train, stored.preparation, recipe.run.seed);
  return result;
}

}  // namespace wick::study
