#include "wick/nn/models/registry.h"

#include "wick/core/base/detail/registry.h"

namespace wick::nn {

namespace {

ImageShape image_of(const Shape& sample) {
  WICK_CHECK(sample.size() == 3, "model: samples: got the shape ", sample,
             ", expected images: channels, height, width");
  return {sample[0], sample[1], sample[2]};
}

bool is_small(const ImageShape& image) { return image.height <= 64 && image.width <= 64; }

ResNetOptions resnet_options(const ImageShape& image, int64_t classes) {
  ResNetOptions options;
  options.classes = classes;
  options.in_channels = image.channels;
  options.small_input = is_small(image);
  return options;
}

// Through a Handle of its class, so that clone() can copy it.
template <class M>
std::shared_ptr<Module> shared(M model) {
  return Handle<M>(std::make_shared<M>(std::move(model))).shared();
}

std::shared_ptr<Module> make_mlp(const Shape& sample, int64_t classes) {
  int64_t features = 1;
  for (const int64_t size : sample) features *= size;
  return shared(Mlp(features, {512, 512}, classes));
}
std::shared_ptr<Module> make_lenet(const Shape& sample, int64_t classes) {
  const ImageShape image = image_of(sample);
  return shared(LeNet(image, classes));
}
std::shared_ptr<Module> make_resnet20(const Shape& sample, int64_t classes) {
  const ImageShape image = image_of(sample);
  return shared(ResNet20(classes, image.channels));
}
std::shared_ptr<Module> make_resnet18(const Shape& sample, int64_t classes) {
  const ImageShape image = image_of(sample);
  return shared(resnet18(resnet_options(image, classes)));
}
std::shared_ptr<Module> make_resnet34(const Shape& sample, int64_t classes) {
  const ImageShape image = image_of(sample);
  return shared(resnet34(resnet_options(image, classes)));
}
std::shared_ptr<Module> make_resnet50(const Shape& sample, int64_t classes) {
  const ImageShape image = image_of(sample);
  return shared(resnet50(resnet_options(image, classes)));
}
std::shared_ptr<Module> make_vit(const Shape& sample, int64_t classes) {
  const ImageShape image = image_of(sample);
  VitOptions options;
  options.patch = is_small(image) ? 4 : 16;
  return shared(Vit(image, classes, options));
}

Registry<ModelEntry>& registry() {
  static Registry<ModelEntry> all(
      "model", {{"mlp", "two hidden layers of 512 units", 2e-3, 1e-2, 64, make_mlp},
                {"lenet", "LeNet-5 with ReLU and max pooling", 4e-3, 1e-2, 64, make_lenet},
                {"resnet20", "He's residual network of 20 layers for small images", 1e-2, 1e-2, 64,
                 make_resnet20},
                {"resnet18", "residual network of 18 layers", 3e-3, 1e-2, 128, make_resnet18},
                {"resnet34", "residual network of 34 layers", 3e-3, 1e-2, 128, make_resnet34},
                {"resnet50", "residual network of 50 layers with bottlenecks", 2e-3, 1e-2, 64,
                 make_resnet50},
                {"vit", "small vision transformer", 1e-3, 5e-2, 64, make_vit}});
  return all;
}

}  // namespace

void register_model(ModelEntry entry) { registry().add(std::move(entry)); }
std::vector<std::string> model_names() { return registry().names(); }
const ModelEntry& find_model(const std::string& name) { return registry().find(name); }

OptionFields fields(ModelOptions& options) {
  return {OptionField("model", &options.name, "network")
              .basic()
              .one_registered(model_names())
              .lasting()};
}

}  // namespace wick::nn
