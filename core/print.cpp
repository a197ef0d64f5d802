#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "wick/core/tensor.h"

namespace wick {

namespace {

constexpr int64_t kAbbreviateAbove = 1000;  // elements
constexpr int64_t kEdge = 3;                // shown at either end of an abbreviated axis
constexpr int64_t kLineWidth = 80;
constexpr int64_t kGap = -1;

// One line of text per element, and brackets around them.
class Printer {
 public:
  explicit Printer(const Tensor& tensor)
      : host_(tensor.detach().cpu()),
        shape_(tensor.shape()),
        abbreviated_(tensor.numel() > kAbbreviateAbove) {
    visit_dtype(host_.dtype(), [&]<class T>(Type<T>) { collect<T>(host_.data<T>(), 0); });
    if (is_floating(host_.dtype())) format_reals();
    for (const std::string& text : texts_) width_ = std::max(width_, text.size());
    for (std::string& text : texts_) text.insert(0, width_ - text.size(), ' ');
  }

  bool abbreviated() const { return abbreviated_; }
  // Everything between the outermost brackets; continued lines begin with `indent` spaces.
  std::string text(int64_t indent) {
    next_ = 0;
    return layout(0, indent);
  }

 private:
  std::vector<int64_t> shown(int axis) const {
    const int64_t n = shape_[axis];
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < n; ++i) {
      if (!abbreviated_ || n <= 2 * kEdge || i < kEdge || i >= n - kEdge) {
        indices.push_back(i);
      } else {
        indices.push_back(kGap);
        i = n - kEdge - 1;
      }
    }
    return indices;
  }

  template <class T>
  void collect(const T* at, int axis) {
    if (axis == shape_.rank()) return add(*at);
    for (const int64_t i : shown(axis)) {
      if (i != kGap) collect(at + i * host_.strides()[axis], axis + 1);
    }
  }
  template <class T>
  void add(T value) {
    if constexpr (std::is_integral_v<T>) {
      texts_.push_back(concat(value));
    } else {
      reals_.push_back(static_cast<double>(value));
    }
  }

  // One format for all: "%.0f." if they are whole numbers, else four digits, with an exponent where
  // the sizes differ too much.
  void format_reals() {
    double least = INFINITY, most = 0;
    bool whole = true;
    for (const double value : reals_) {
      if (!std::isfinite(value) || value == 0) continue;
      least = std::min(least, std::fabs(value));
      most = std::max(most, std::fabs(value));
      whole = whole && value == std::trunc(value);
    }
    const bool any = most > 0;
    const bool scientific = any && (most / least > 1000 || most > 1e8 || (!whole && least < 1e-4));
    const char* format = scientific ? "%.4e" : whole ? "%.0f." : "%.4f";
    for (const double value : reals_) {
      char buffer[64];
      std::snprintf(buffer, sizeof(buffer), std::isfinite(value) ? format : "%f", value);
      texts_.emplace_back(std::isnan(value) ? "nan" : buffer);
    }
  }

  std::string layout(int axis, int64_t indent) {
    if (axis == shape_.rank()) return texts_[next_++];
    const bool innermost = axis == shape_.rank() - 1;
    const auto per_line =
        std::max<int64_t>(1, (kLineWidth - indent) / static_cast<int64_t>(width_ + 2));
    const std::string margin(static_cast<size_t>(indent + 1), ' ');
    const std::string blank_lines(static_cast<size_t>(shape_.rank() - axis - 1), '\n');
    std::string result = "[";
    int64_t count = 0;
    for (const int64_t i : shown(axis)) {
      if (count > 0) {
        result += ",";
        if (!innermost) {
          result += blank_lines + margin;
        } else {
          result += count % per_line == 0 ? "\n" + margin : " ";
        }
      }
      result += i == kGap ? "..." : layout(axis + 1, indent + 1);
      ++count;
    }
    return result + "]";
  }

  Tensor host_;
  Shape shape_;
  bool abbreviated_;
  std::vector<double> reals_;
  std::vector<std::string> texts_;
  size_t width_ = 0;
  size_t next_ = 0;
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "tensor(undefined)";
  const std::string opening = "tensor(";
  Printer printer(tensor);
  std::string text = opening;
  text += tensor.numel() == 0 ? "[]" : printer.text(static_cast<int64_t>(opening.size()));
  if (tensor.dtype() != kFloat32) text += concat(", ", to_string(tensor.dtype()));
  if (printer.abbreviated() || tensor.numel() == 0) text += concat(", shape ", tensor.shape());
  if (!tensor.device().is_cpu()) text += concat(", ", tensor.device());
  if (tensor.requires_grad()) text += ", requires_grad";
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}

}  // namespace wick
