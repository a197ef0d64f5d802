#include "wick/nn/models/registry.h"

namespace wick::nn {

namespace {

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

std::shared_ptr<Module> make_mlp(const ImageShape& image, int64_t classes) {
  const int64_t features = image.channels * image.height * image.width;
  return shared(Mlp(features, {512, 512}, classes));
}
std::shared_ptr<Module> make_lenet(const ImageShape& image, int64_t classes) {
  return shared(LeNet(image, classes));
}
std::shared_ptr<Module> make_resnet20(const ImageShape& image, int64_t classes) {
  return shared(ResNet20(classes, image.channels));
}
std::shared_ptr<Module> make_resnet18(const ImageShape& image, int64_t classes) {
  return shared(resnet18(resnet_options(image, classes)));
}
std::shared_ptr<Module> make_resnet34(const ImageShape& image, int64_t classes) {
  return shared(resnet34(resnet_options(image, classes)));
}
std::shared_ptr<Module> make_resnet50(const ImageShape& image, int64_t classes) {
  return shared(resnet50(resnet_options(image, classes)));
}
std::shared_ptr<Module> make_vit(const ImageShape& image, int64_t classes) {
  VitOptions options;
  options.patch = is_small(image) ? 4 : 16;
  return shared(Vit(image, classes, options));
}

}  // namespace

const std::vector<ModelEntry>& models() {
  static const std::vector<ModelEntry> all = {
      {"mlp", "two hidden layers of 512 units", 2e-3, 1e-2, 64, &make_mlp},
      {"lenet", "LeNet-5 with ReLU and max pooling", 4e-3, 1e-2, 64, &make_lenet},
      {"resnet20", "He's residual network of 20 layers for small images", 1e-2, 1e-2, 64,
       &make_resnet20},
      {"resnet18", "residual network of 18 layers", 3e-3, 1e-2, 128, &make_resnet18},
      {"resnet34", "residual network of 34 layers", 3e-3, 1e-2, 128, &make_resnet34},
      {"resnet50", "residual network of 50 layers with bottlenecks", 2e-3, 1e-2, 64,
       &make_resnet50},
      {"vit", "small vision transformer", 1e-3, 5e-2, 64, &make_vit},
  };
  return all;
}

const ModelEntry& find_model(const std::string& name) {
  std::string names;
  for (const ModelEntry& entry : models()) {
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  detail::fail("model: unknown name: got \"", name, "\", expected one of ", names);
}

}  // namespace wick::nn
