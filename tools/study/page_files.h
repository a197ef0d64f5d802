#pragma once

#include <string_view>

namespace wick::study {

// The files of tools/study/page, and Chart.js, as cmake/program.cmake puts them into the program.
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;
extern const std::string_view kChartJs;
// Of pages that draw a trace:
extern const std::string_view kTraceCss;
extern const std::string_view kTraceHtml;
extern const std::string_view kTraceJs;
extern const std::string_view kTraceViewJs;

}  // namespace wick::study
