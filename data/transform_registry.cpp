#include "wick/data/transform_registry.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "wick/core/base/detail/registry.h"
#include "wick/data/augment.h"

namespace wick::data {

namespace {

using Numbers = std::vector<double>;
using Context = TransformContext;

template <class T, class... Args>
Transforms one(Args&&... args) {
  return {std::make_shared<T>(std::forward<Args>(args)...)};
}

int64_t whole(double number) {
  WICK_CHECK(number == std::floor(number) && std::fabs(number) < 1e9,
             "transform: wrong number: got ", number, ", expected a whole one");
  return static_cast<int64_t>(number);
}

// The longer way of what photographs are cut from.
Transforms resize_to(const Numbers& n, const Context& c) {
  return one<Resize>(n[0] == 0 ? c.size.height * 8 / 7 : whole(n[0]));
}

Transforms erase(const Numbers& n, const Context& c) {
  std::vector<uint8_t> mean;
  for (const float m : c.preparation.mean) mean.push_back(static_cast<uint8_t>(m * 255 + 0.5f));
  if (mean.empty()) mean = {0};
  return one<RandomErasing>(RandomErasingOptions{.p = n[0], .value = std::move(mean)});
}

Transforms jitter(const Numbers& n, const Context&) {
  return one<ColorJitter>(
      ColorJitterOptions{.brightness = n[0], .contrast = n[1], .saturation = n[2], .hue = n[3]});
}

Transforms rand_augment(const Numbers& n, const Context&) {
  return one<RandAugment>(RandAugmentOptions{.num_ops = static_cast<int>(whole(n[0])),
                                             .magnitude = static_cast<int>(whole(n[1]))});
}

// --- Policies -----------------------------------------------------------------------------------

Transforms as_test_images(const Numbers&, const Context& c) {
  return c.preparation.photographs ? make_transforms("resize, center_crop", c) : Transforms();
}

Transforms basic(const Context& c, const std::string& more = "") {
  const Preparation& p = c.preparation;
  std::string text = p.photographs ? "random_resized_crop" : concat("random_crop(", p.padding, ")");
  if (p.flip) text += ", horizontal_flip";
  return make_transforms(more.empty() ? text : concat(text, ", ", more), c);
}

std::deque<TransformEntry> built_in() {
  return {
      {"random_crop",
       {{"padding", 0}},
       [](const Numbers& n, const Context& c) { return one<RandomCrop>(c.size, whole(n[0])); }},
      {"random_resized_crop",
       {{"least_share", 0.08}, {"most_share", 1}},
       [](const Numbers& n, const Context& c) {
         return one<RandomResizedCrop>(c.size, std::pair(n[0], n[1]));
       }},
      {"resize", {{"shorter_side", 0}}, resize_to},  // 0: 8/7 of the result's
      {"center_crop", {}, [](const Numbers&, const Context& c) { return one<CenterCrop>(c.size); }},
      {"horizontal_flip",
       {{"p", 0.5}},
       [](const Numbers& n, const Context&) { return one<RandomHorizontalFlip>(n[0]); }},
      {"vertical_flip",
       {{"p", 0.5}},
       [](const Numbers& n, const Context&) { return one<RandomVerticalFlip>(n[0]); }},
      {"color_jitter",
       {{"brightness", 0.4}, {"contrast", 0.4}, {"saturation", 0.4}, {"hue", 0.1}},
       jitter},
      {"grayscale",
       {{"p", 0.1}},
       [](const Numbers& n, const Context&) { return one<RandomGrayscale>(n[0]); }},
      {"rand_augment", {{"num_ops", 2}, {"magnitude", 9}}, rand_augment},
      {"random_erasing", {{"p", 0.5}}, erase},  // by the mean colour
      {"cutout",
       {{"length"}, {"holes", 1}},
       [](const Numbers& n, const Context&) { return one<Cutout>(whole(n[0]), whole(n[1])); }},
      {"none", {}, as_test_images, true},
      {"basic", {}, [](const Numbers&, const Context& c) { return basic(c); }, true},
      {"color",
       {},
       [](const Numbers&, const Context& c) { return basic(c, "color_jitter"); },
       true},
      {"randaugment",
       {},
       [](const Numbers&, const Context& c) { return basic(c, "rand_augment"); },
       true},
  };
}

Registry<TransformEntry>& transform_registry() {
  static Registry<TransformEntry> all("transform", built_in());
  return all;
}

// --- Reading a list -----------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text), rest_(text) {}

  Transforms read(const Context& context) {
    Transforms all;
    do {
      const TransformEntry& entry = find_transform(name());
      for (auto& transform : entry.make(numbers(entry), context)) all.push_back(transform);
    } while (take(','));
    if (!rest_.empty()) fail();
    return all;
  }

 private:
  [[noreturn]] void fail() const {
    detail::fail("transforms: cannot read the list: got \"", text_,
                 "\", expected names with "
                 "numbers, as in random_crop(4), horizontal_flip");
  }

  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    skip_spaces();
    return true;
  }
  std::string name() {
    skip_spaces();
    size_t n = 0;
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    };
    while (n < rest_.size() && is_part(rest_[n])) ++n;
    if (n == 0) fail();
    const std::string found(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return found;
  }
  double number() {
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) fail();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  Numbers numbers(const TransformEntry& entry) {
    Numbers given;
    if (take('(') && !take(')')) {
      do given.push_back(number());
      while (take(','));
      if (!take(')')) fail();
    }
    const size_t count = given.size();
    bool enough = count <= entry.arguments.size();
    for (size_t i = count; enough && i < entry.arguments.size(); ++i) {
      enough = entry.arguments[i].value.has_value();
      given.push_back(entry.arguments[i].value.value_or(0));
    }
    WICK_CHECK(enough, "transform: ", entry.name, ": wrong number of arguments: got ", count,
               ", expected ", usage(entry));
    return given;
  }
  static std::string usage(const TransformEntry& entry) {
    std::string list;
    for (const auto& argument : entry.arguments) {
      list += concat(list.empty() ? "" : ", ", argument.name);
      if (argument.value) list += concat(" = ", *argument.value);
    }
    return concat(entry.name, "(", list, ")");
  }

  const std::string& text_;
  std::string_view rest_;
};

}  // namespace

void register_transform(TransformEntry entry) {
  WICK_CHECK(entry.make, "transform: register: ", entry.name, ": got no function, expected make");
  transform_registry().add(std::move(entry));
}

std::vector<std::string> transform_names() { return transform_registry().names(); }
const TransformEntry& find_transform(const std::string& name) {
  return transform_registry().find(name);
}

Transforms make_transforms(const std::string& text, const TransformContext& context) {
  return Reader(text).read(context);
}

}  // namespace wick::data
