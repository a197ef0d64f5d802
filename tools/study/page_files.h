#pragma once

#include <string_view>

namespace wick::study {

// The files of tools/study/page, and Chart.js, as cmake/study.cmake puts them into the program.
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;
extern const std::string_view kChartJs;

}  // namespace wick::study
