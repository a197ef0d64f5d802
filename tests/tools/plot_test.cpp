#include "wick/tools/common/plot.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace wick::tool {
namespace {

const Curve kCurve{{1e-3, 1e-2, 1e-1}, {3, 2, 1}, "rate", "loss", 1e-2};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Plot, TextPutsPointsByPowersOfX) {
  const std::vector<std::string> lines = lines_of(text_plot(kCurve, 21, 5));
  ASSERT_EQ(lines.size(), 9u);  // the name of y, five rows, the axis, its ends, the name of x
  EXPECT_EQ(lines[0], "      loss");
  EXPECT_EQ(lines[1], "         3 |*         :          ");
  EXPECT_EQ(lines[3], "           |          *          ");
  EXPECT_EQ(lines[5], "         1 |          :         *");
  EXPECT_NE(lines[7].find("0.001"), std::string::npos);
  EXPECT_NE(lines[8].find("rate"), std::string::npos);
}

TEST(Plot, SvgHasEachPointThePowersAndTheMark) {
  const std::string svg = svg_plot(kCurve);
  EXPECT_NE(svg.find("points=\"80.0,20.0 390.0,190.0 700.0,360.0 \""), std::string::npos) << svg;
  for (const char* part : {">1e-3<", ">1e-2<", ">1e-1<", ">0.01<", ">rate<", ">loss<", "</svg>"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
}

TEST(Plot, FlatCurvesAndNoneAreDrawn) {
  const Curve flat{{1, 10}, {2, 2}, "x", "y"};
  EXPECT_EQ(lines_of(text_plot(flat, 11, 3))[2], "           |*         *");
  EXPECT_NE(svg_plot(flat).find("80.0,190.0 700.0,190.0"), std::string::npos);
  EXPECT_EQ(text_plot({}), "");
  EXPECT_EQ(svg_plot({}), "");
}

}  // namespace
}  // namespace wick::tool
