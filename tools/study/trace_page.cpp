#include "wick/tools/study/trace_page.h"

#include <filesystem>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/tools/study/html.h"
#include "wick/tools/study/page_files.h"

namespace wick::study {

namespace {

using nlohmann::json;
// A browser needs some ten times as much.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

json read_events(const std::string& path) {
  const json all = json::parse(read_file(path, kMostBytes), nullptr, /*allow_exceptions=*/false);
  const bool is_bare = all.is_array();  // the format's other form
  WICK_CHECK(
      is_bare || (all.is_object() && all.contains("traceEvents") && all["traceEvents"].is_array()),
      "trace page: ", path,
      ": not a trace in Chrome's format: expected JSON with a list of traceEvents");
  json events = json::array();
  for (const json& event : is_bare ? all : all["traceEvents"]) {
    if (event.is_object()) events.push_back(event);
  }
  return events;
}

// JSON as it may stand in a <script>: nothing in it ends or begins an element.
std::string harmless(const json& value) {
  std::string text;
  for (const char c : value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace)) {
    c == '<' ? text += "\\u003c" : text += c;
  }
  return text;
}

}  // namespace

void write_trace_page(const std::string& trace, const std::string& page) {
  const json all = {{"traceEvents", read_events(trace)}};
  Html html;
  html.markup({std::string(kTraceHtml)});
  html.open("script", {{"type", "application/json"}, {"id", "trace"}});
  html.markup({harmless(all)});
  html.close();
  const std::string name = std::filesystem::path(trace).filename().string();
  write_file(page, study::page("Trace " + name, "", {}, html,
                               {.style = kTraceCss, .scripts = {kTraceJs, kTraceViewJs}}));
}

}  // namespace wick::study
