#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "wick/tools/common/plot.h"

namespace wick::tool {

namespace {

struct Range {
  double low, high;
  // 0 to 1 within it.
  double place(double v) const { return high > low ? (v - low) / (high - low) : 0.5; }
};

Range range_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const double v : values) logs.push_back(std::log10(v));
  return logs;
}

}  // namespace

std::string text_plot(const Curve& curve, int width, int height) {
  if (curve.x.empty()) return "";
  const Range xs = range_of(logarithms(curve.x)), ys = range_of(curve.y);
  const auto column = [&](double x) {
    return static_cast<size_t>(std::lround(xs.place(std::log10(x)) * (width - 1)));
  };
  std::vector<std::string> rows(static_cast<size_t>(height),
                                std::string(static_cast<size_t>(width), ' '));
  if (curve.mark) {
    for (std::string& row : rows) row[column(*curve.mark)] = ':';
  }
  for (size_t i = 0; i < curve.x.size(); ++i) {
    const auto row = static_cast<size_t>(std::lround((1 - ys.place(curve.y[i])) * (height - 1)));
    rows[row][column(curve.x[i])] = '*';
  }
  std::string text = fmt::format("{:>10}\n", curve.y_name);
  for (size_t r = 0; r < rows.size(); ++r) {
    const bool labelled = r == 0 || r + 1 == rows.size();
    const double y = r == 0 ? ys.high : ys.low;
    text +=
        (labelled ? fmt::format("{:>10.4g} |", y) : std::string(11, ' ') + "|") + rows[r] + "\n";
  }
  text += std::string(11, ' ') + "+" + std::string(static_cast<size_t>(width), '-') + "\n";
  const std::string low = fmt::format("{:.3g}", curve.x.front());
  const std::string high = fmt::format("{:.3g}", curve.x.back());
  return text + fmt::format("{:12}{:<{}}{:>{}}\n", "", low, width / 2, high, width - width / 2) +
         fmt::format("{:12}{:^{}}\n", "", curve.x_name, width);
}

std::string svg_plot(const Curve& curve) {
  constexpr double kWidth = 720, kHeight = 420, kLeft = 80, kBottom = 60, kEdge = 20;
  if (curve.x.empty()) return "";
  const Range xs = range_of(logarithms(curve.x)), ys = range_of(curve.y);
  const auto px = [&](double log_x) { return kLeft + xs.place(log_x) * (kWidth - kLeft - kEdge); };
  const auto py = [&](double y) { return kEdge + (1 - ys.place(y)) * (kHeight - kEdge - kBottom); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  const double bottom = kHeight - kBottom;
  for (double power = std::ceil(xs.low - 1e-9); power <= xs.high + 1e-9; ++power) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">1e{4:.0f}</text>\n",
        px(power), kEdge, bottom, bottom + 20, power);
  }
  for (const double y : {ys.low, (ys.low + ys.high) / 2, ys.high}) {
    svg += fmt::format(
        "<line x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
        py(y), kLeft, kWidth - kEdge, kLeft - 8, py(y) + 4, y);
  }
  if (curve.mark) {
    const double x = px(std::log10(*curve.mark));
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#c33\" "
        "stroke-dasharray=\"4\"/><text x=\"{3:.1f}\" y=\"{4}\" fill=\"#c33\">{5:.3g}</text>\n",
        x, kEdge, bottom, x + 5, kEdge + 12, *curve.mark);
  }
  svg += "<polyline fill=\"none\" stroke=\"#26c\" stroke-width=\"2\" points=\"";
  for (size_t i = 0; i < curve.x.size(); ++i) {
    svg += fmt::format("{:.1f},{:.1f} ", px(std::log10(curve.x[i])), py(curve.y[i]));
  }
  return svg + fmt::format(
                   "\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>"
                   "<text x=\"{}\" y=\"{}\">{}</text>\n</svg>\n",
                   (kLeft + kWidth) / 2, kHeight - 15, curve.x_name, 8, 14, curve.y_name);
}

}  // namespace wick::tool
