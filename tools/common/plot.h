#pragma once

#include <optional>
#include <string>
#include <vector>

namespace wick::tool {

/// A line to plot.
struct Curve {
  std::vector<double> x, y;
  std::string x_name, y_name;
  std::optional<double> mark = {};  // a value of x to point out
};

/// The curve in characters, x by powers, `height` lines high.
std::string text_plot(const Curve& curve, int width = 64, int height = 12);
/// The curve as an SVG file that needs nothing else.
std::string svg_plot(const Curve& curve);

}  // namespace wick::tool
