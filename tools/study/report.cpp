#include "wick/tools/study/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "wick/core/file.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/study/graph_picture.h"
#include "wick/tools/study/html.h"
#include "wick/tools/study/pictures.h"
#include "wick/tools/study/trained_run.h"
#include "wick/train/hardware.h"

namespace wick::study {

namespace {

using nlohmann::json;
using CellRows = std::vector<std::vector<std::string>>;

constexpr size_t kMostPoints = 200;

// A figure that runs write, and how it is shown.
struct Shown {
  const char* key;
  const char* title;
  const char* axis;
  double unit;  // what values are multiplied by
  bool smooth;  // a mean over each stretch of steps, not every value
};

constexpr Shown kShown[] = {
    {"loss", "Training loss", "loss", 1, true},
    {"test_loss", "Test loss", "loss", 1, false},
    {"test_accuracy", "Test accuracy", "% right", 100, false},
    {"accuracy", "Training accuracy", "% right", 100, true},
    {"lr", "Learning rate", "rate", 1, true},
    {"images_per_second", "Speed", "images per second", 1, true},
    {"data_wait", "Waiting for data", "% of the time", 100, true},
    {"memory_bytes", "Most memory held", "MB", 1e-6, true},
};

// The mean of each of at most `kMostPoints` stretches.
Curve thinned(const Curve& curve, double unit, bool smooth) {
  const size_t width = smooth ? (curve.size() + kMostPoints - 1) / kMostPoints : 1;
  Curve points;
  for (size_t begin = 0; begin < curve.size(); begin += width) {
    const size_t end = std::min(curve.size(), begin + width);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += curve[i].second;
    points.emplace_back(curve[end - 1].first, unit * sum / static_cast<double>(end - begin));
  }
  return points;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "not finite";
  return fmt::format("{:.4g}", value);
}

void show_curves(Html& html, const std::vector<TrainedRun>& runs) {
  html.element("h2", "Curves", {{"id", "curves"}});
  for (const Shown& shown : kShown) {
    json series = json::array();
    CellRows rows;
    for (const TrainedRun& run : runs) {
      const auto found = run.curves.find(shown.key);
      if (found == run.curves.end()) continue;
      const Curve points = thinned(found->second, shown.unit, shown.smooth);
      json values = json::array();
      for (const auto& [step, value] : points) {
        values.push_back({step, std::isfinite(value) ? json(value) : json()});
        rows.push_back({run.name, fmt::format("{:.0f}", step), short_number(value)});
      }
      series.push_back({{"name", run.name}, {"points", values}, {"line", shown.smooth}});
    }
    if (series.empty()) continue;
    const json chart = {{"type", "lines"},
                        {"size", "low"},
                        {"x", {{"title", "steps"}}},
                        {"y", {{"title", shown.axis}}},
                        {"series", series}};
    html.figure(shown.title, chart, {"Run", "Step", shown.axis}, rows);
  }
}

std::string last_of(const TrainedRun& run, const char* key, double unit, const char* format) {
  const auto found = run.curves.find(key);
  if (found == run.curves.end() || found->second.empty()) return "–";
  return fmt::format(fmt::runtime(format), unit * found->second.back().second);
}

void show_results(Html& html, const std::vector<TrainedRun>& runs) {
  html.element("h2", "Results", {{"id", "results"}});
  CellRows rows;
  for (const TrainedRun& run : runs) {
    const auto loss = run.curves.find("loss");
    const bool any = loss != run.curves.end() && !loss->second.empty();
    rows.push_back({run.name, any ? fmt::format("{:.0f}", loss->second.back().first) : "–",
                    last_of(run, "loss", 1, "{:.4f}"), last_of(run, "test_loss", 1, "{:.4f}"),
                    last_of(run, "test_accuracy", 100, "{:.2f} %"),
                    last_of(run, "images_per_second", 1, "{:.0f}"),
                    last_of(run, "memory_bytes", 1e-6, "{:.1f}")});
  }
  html.table(
      "The last figures of each run",
      {"Run", "Steps", "Training loss", "Test loss", "Test accuracy", "Images/s", "Memory, MB"},
      rows);
}

// The configuration, those keys first in which runs differ.
void show_configuration(Html& html, const std::vector<TrainedRun>& runs) {
  html.element("h2", "Configuration", {{"id", "configuration"}});
  std::vector<std::string> head = {"Key"};
  for (const TrainedRun& run : runs) head.push_back(run.name);
  CellRows unlike, alike;
  for (const auto& [key, value] : runs[0].config.items()) {
    std::vector<std::string> row = {key};
    bool same = true;
    for (const TrainedRun& run : runs) {
      const auto& other = run.config[key];
      same = same && other == value;
      row.push_back(other.is_string() ? other.get<std::string>()
                    : other.is_null() ? "–"
                                      : other.dump());
    }
    (same ? alike : unlike).push_back(std::move(row));
  }
  if (runs.size() > 1) {
    if (unlike.empty()) html.element("p", "The runs have the same configuration.");
    if (!unlike.empty()) html.table("What differs", head, unlike);
    html.open("details");
    html.element("summary", "What is the same");
    html.table("The same in all runs", head, alike);
    html.close();
  } else {
    html.table("As the run was started", head, alike);
  }
}

void show_environment(Html& html, const std::vector<TrainedRun>& runs) {
  html.element("h2", "Environment", {{"id", "environment"}});
  CellRows rows;
  for (const TrainedRun& run : runs) {
    for (const auto& [key, value] : run.environment) rows.push_back({run.name, key, value});
  }
  if (rows.empty()) html.element("p", "The runs say nothing of where they ran.");
  if (!rows.empty()) html.table("Where the runs ran", {"Run", "", ""}, rows);
  html.element("p", "This page was made on: " + train::one_line(train::find_hardware()) + ".");
}

void show_confusion(Html& html, const Examination& result) {
  const size_t classes = result.classes.size();
  constexpr size_t kMostClasses = 30;
  if (classes > kMostClasses) {
    CellRows pairs;
    for (size_t a = 0; a < classes; ++a) {
      for (size_t b = 0; b < classes; ++b) {
        if (a == b || result.confusion[a][b] == 0) continue;
        pairs.push_back(
            {std::to_string(result.confusion[a][b]), result.classes[a], result.classes[b]});
      }
    }
    std::sort(pairs.begin(), pairs.end(),
              [](const auto& a, const auto& b) { return std::stoll(a[0]) > std::stoll(b[0]); });
    pairs.resize(std::min<size_t>(pairs.size(), 50));
    html.table("The commonest confusions", {"Images", "Label", "Guess"}, pairs);
    return;
  }
  html.open("div", {{"class", "scroll"},
                    {"tabindex", "0"},
                    {"role", "region"},
                    {"aria-label", "Confusion matrix"}});
  html.open("table", {{"class", "matrix"}});
  html.element("caption", "Test images by label (rows) and guess (columns)");
  html.open("tr");
  html.element("th", "");
  for (const std::string& name : result.classes) html.element("th", name, {{"scope", "col"}});
  html.close();
  for (size_t label = 0; label < classes; ++label) {
    const std::vector<int64_t>& row = result.confusion[label];
    int64_t all = 0;
    for (const int64_t count : row) all += count;
    html.open("tr");
    html.element("th", result.classes[label], {{"scope", "row"}});
    for (size_t guess = 0; guess < classes; ++guess) {
      const double share = all > 0 ? static_cast<double>(row[guess]) / static_cast<double>(all) : 0;
      const std::string color = guess == label ? "0, 103, 177" : "213, 94, 0";
      const std::string style =
          row[guess] == 0 ? ""
                          : fmt::format("background: rgba({}, {:.2f})", color, 0.08 + 0.42 * share);
      html.element("td", std::to_string(row[guess]), {{"style", style}});
    }
    html.close();
  }
  html.close();
  html.close();
}

void show_graph(Html& html, const Examination& result) {
  if (!result.why_no_graph.empty()) {
    html.element("p", "The model has no graph: " + result.why_no_graph);
    return;
  }
  html.open("details");
  html.element("summary", fmt::format("The graph of the model: {} ops", result.graph.nodes.size()));
  html.open("div", {{"class", "scroll"},
                    {"tabindex", "0"},
                    {"role", "region"},
                    {"aria-label", "Graph of the model"}});
  html.markup({graph_picture(result.graph)});
  html.close();
  html.close();
}

void show_examination(Html& html, const TrainedRun& run, const Examination& result) {
  html.element("h3", run.name);
  html.element("p",
               fmt::format("{} of {} test images right ({:.2f} %).", result.right, result.images,
                           100.0 * static_cast<double>(result.right) /
                               static_cast<double>(std::max<int64_t>(1, result.images))));
  show_confusion(html, result);
  if (!result.worst.empty()) {
    html.element("p", "The mistakes with the largest loss:");
    html.open("ul", {{"class", "thumbnails"}});
    for (const Mistake& mistake : result.worst) {
      html.open("li");
      html.open("div");
      html.markup(
          {"<img alt=\"" + escaped(mistake.name) + "\" src=\"" + png_link(mistake.image) + "\">"});
      html.close();
      html.text(fmt::format("{}, taken for {} ({:.0f} %), loss {:.2f}", mistake.label,
                            mistake.guess, 100 * mistake.confidence, mistake.loss));
      html.close();
    }
    html.close();
  }
  html.element("p", "Training images (rows) as eight epochs see them:");
  html.markup({"<img class=\"sheet\" alt=\"augmented training images\" src=\"" +
               png_link(result.augmented, 1024) + "\">\n"});
  show_graph(html, result);
}

void show_examinations(Html& html, const std::vector<TrainedRun>& runs,
                       const ReportOptions& options) {
  html.element("h2", "What the models get wrong", {{"id", "mistakes"}});
  for (const TrainedRun& run : runs) {
    try {
      show_examination(html, run, examine(run.folder, options.data_dir));
    } catch (const std::exception& error) {  // the rest of the page stands all the same
      html.element("h3", run.name);
      html.element("p", std::string("The model could not be run: ") + error.what());
      fmt::print(stderr, "wick: report: {}: the model could not be run: {}\n", run.folder,
                 error.what());
    }
  }
}

// Only what is a page is replaced without a word.
void check_replaceable(const std::string& out) {
  std::error_code error;
  if (!std::filesystem::exists(out, error)) return;
  constexpr std::string_view kBegin = "<!DOCTYPE html>";
  std::string begin(kBegin.size(), '\0');
  std::ifstream(out, std::ios::binary).read(begin.data(), std::ssize(begin));
  if (begin != kBegin) {
    throw tool::UsageError("report: --out: " + out + " is there, and no page: remove it first");
  }
}

}  // namespace

int run_report(const ReportOptions& options) {
  if (!options.out.empty()) check_replaceable(options.out);
  std::vector<TrainedRun> runs;
  for (const std::string& folder : options.runs) runs.push_back(read_run(folder));
  Html html;
  show_results(html, runs);
  show_curves(html, runs);
  if (!options.no_evaluation) show_examinations(html, runs, options);
  show_configuration(html, runs);
  show_environment(html, runs);
  std::vector<std::pair<std::string, std::string>> sections = {{"results", "Results"},
                                                               {"curves", "Curves"}};
  if (!options.no_evaluation) sections.emplace_back("mistakes", "Mistakes");
  sections.emplace_back("configuration", "Configuration");
  sections.emplace_back("environment", "Environment");
  const std::string title = runs.size() == 1
                                ? "Training run " + runs[0].name
                                : fmt::format("{} training runs side by side", runs.size());
  const std::string out = options.out.empty() ? runs[0].folder + "/report.html" : options.out;
  std::string names;
  for (const TrainedRun& run : runs) names += (names.empty() ? "" : ", ") + run.folder;
  write_file(out, page(title, "A report by wick about " + names, sections, html));
  fmt::print("page    {}\n", out);
  return 0;
}

}  // namespace wick::study
