#include "wick/tools/study/study_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "wick/core/file.h"
#include "wick/tools/study/cards.h"
#include "wick/tools/study/claims.h"
#include "wick/tools/study/html.h"
#include "wick/tools/study/roofline.h"
#include "wick/tools/study/scaling.h"
#include "wick/tools/study/summary.h"

namespace wick::study {

namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

std::string title_of(const std::string& id) {
  const Technique* technique = find_technique(id);
  return technique == nullptr ? id : technique->title;
}

void fact(Html& html, const std::string& name, const std::string& value, bool small = false) {
  html.open("div");
  html.element("dt", name);
  html.element("dd", value, small ? Html::Attributes{{"class", "small"}} : Html::Attributes{});
  html.close();
}

void show_machine(Html& html, const Store& store) {
  const json* start = store.find("start");
  if (start == nullptr) return;
  const json& machine = start->at("machine");
  html.open("dl", {{"class", "facts"}});
  fact(html, "Processor", machine.value("processor", ""), true);
  fact(html, "Cores", std::to_string(machine.value("cores", 0)));
  fact(html, "Memory", fmt::format("{:.1f} GB", machine.value("memory_bytes", 0.0) / 1e9));
  std::string features;
  for (const json& feature : machine.value("features", json::array())) {
    features += (features.empty() ? "" : ", ") + feature.get<std::string>();
  }
  fact(html, "Instructions", features, true);
  std::string gpus;
  for (const json& gpu : machine.value("gpus", json::array())) {
    gpus += (gpus.empty() ? "" : ", ") + gpu.get<std::string>();
  }
  fact(html, "GPU", gpus.empty() ? "none" : gpus, true);
  fact(html, "Measured on",
       fmt::format("{}, {} threads", start->value("device", ""), start->value("threads", 0)), true);
  html.close();
}

void show_overview(Html& html, const std::vector<Measured>& all) {
  html.element("h2", "What helped", {{"id", "overview"}});
  html.element("p",
               "Images per second with each technique over those without, on a workload where it "
               "should matter. Both sides ran in turn, each in a process of its own, and, unless "
               "the first two processes showed no difference, again in new ones. The figure is the "
               "median of all pairs of turns, the line an interval that holds the true one with "
               "99 % confidence, whatever made the turns end (96 % where there was time for 8 to "
               "10 pairs only). It takes both that it excludes 1 and a median 2 % away from it to "
               "be called faster or slower, and an interval within 4 % of 1 to be called no "
               "difference.");
  std::vector<const Measured*> shown;
  for (const Measured& measured : all) {
    if (!measured.cases.empty()) shown.push_back(&measured);
  }
  std::stable_sort(shown.begin(), shown.end(), [](const Measured* a, const Measured* b) {
    return a->cases[0].comparison.speed.middle > b->cases[0].comparison.speed.middle;
  });
  if (shown.empty()) return;
  json chart = {{"type", "bars"},
                {"size", shown.size() > 12 ? "tall" : ""},
                {"one", 1},
                {"x", {{"title", "times as many images per second"}, {"log", true}, {"unit", "×"}}},
                {"labels", json::array()},
                {"bars", json::array()}};
  Rows rows;
  for (const Measured* measured : shown) {
    const CaseResult& first = measured->cases[0];
    const Comparison& c = first.comparison;
    chart["labels"].push_back(measured->technique->title);
    chart["bars"].push_back({{"value", c.speed.middle},
                             {"low", c.speed.low},
                             {"high", c.speed.high},
                             {"kind", kind_of(speed_verdict(c))}});
    rows.push_back({measured->technique->title, ratio_text(c.speed.middle), ratio_text(c.speed.low),
                    ratio_text(c.speed.high), std::to_string(c.pairs), std::to_string(c.processes),
                    ratio_text(1 / c.memory), first.workload});
  }
  html.figure(
      "Speed with each technique over speed without", chart,
      {"Technique", "Ratio", "From", "To", "Pairs of turns", "of processes", "Memory", "Workload"},
      rows);
}

void show_ladder(Html& html, const Store& store) {
  const json* ladder = store.find("ladder");
  if (ladder == nullptr) return;
  html.element("h2", "From the articles' script to everything on", {{"id", "ladder"}});
  const Comparison total = ladder->at("total").get<Comparison>();
  html.element(
      "p",
      fmt::format("{}. The script begins with every habit that costs time, most of which the "
                  "articles advise against. What seemed to gain most comes first; each step is "
                  "measured against the one before, and taken if it is faster by the rule "
                  "above. The last script is {} ({} to {}) times as fast as the first.",
                  ladder->value("workload", ""), ratio_text(total.speed.middle),
                  ratio_text(total.speed.low), ratio_text(total.speed.high)));
  json chart = {{"type", "waterfall"},
                {"x", {{"title", "images per second"}, {"begin", true}}},
                {"labels", {"the articles' script"}},
                {"bars", json::array()}};
  const double naive = total.off.images_per_second, best = total.on.images_per_second;
  chart["bars"].push_back({{"from", 0}, {"to", naive}, {"kind", "same"}});
  Rows rows = {{"the articles' script", "", "", "", fmt::format("{:.0f}", naive)}};
  double at = naive;
  for (const json& rung : ladder->at("rungs")) {
    const Comparison c = rung.at("comparison").get<Comparison>();
    const double next = at * c.speed.middle;
    const std::string title = title_of(rung.value("id", ""));
    chart["labels"].push_back(title);
    chart["bars"].push_back({{"from", at}, {"to", next}, {"kind", "gain"}});
    rows.push_back({title, ratio_text(c.speed.middle), ratio_text(c.speed.low),
                    ratio_text(c.speed.high), fmt::format("{:.0f}", next)});
    at = next;
  }
  chart["labels"].push_back("everything on");
  chart["bars"].push_back({{"from", 0}, {"to", best}, {"kind", "same"}});
  rows.push_back({"everything on, beside the script", ratio_text(total.speed.middle),
                  ratio_text(total.speed.low), ratio_text(total.speed.high),
                  fmt::format("{:.0f}", best)});
  html.figure("Images per second, step by step", chart, {"Step", "Ratio", "From", "To", "Images/s"},
              rows);
  std::string rejected, untried;
  const auto add = [](std::string& list, const std::string& words) {
    list += (list.empty() ? "" : "; ") + words;
  };
  for (const json& rung : ladder->at("rejected")) {
    const Interval speed = rung.at("comparison").at("speed").get<Interval>();
    add(rejected,
        fmt::format("{} ({}, {} to {})", title_of(rung.value("id", "")), ratio_text(speed.middle),
                    ratio_text(speed.low), ratio_text(speed.high)));
  }
  for (const json& id : ladder->value("untried", json::array())) add(untried, title_of(id));
  if (!rejected.empty()) html.element("p", "No gain showed on top of these: " + rejected + ".");
  if (!untried.empty()) html.element("p", "There was no time for: " + untried + ".");
}

void show_sweep(Html& html, const Store& store) {
  const json* sweep = store.find("sweep");
  if (sweep == nullptr) return;
  html.element("h2", "How many workers load best", {{"id", "loader"}});
  html.element("p", "The loader alone, " + sweep->value("workload", "") +
                        ". With 0 the training thread itself reads.");
  json chart = {{"type", "bars"},
                {"size", "low"},
                {"x", {{"title", "images per second"}, {"begin", true}}},
                {"labels", json::array()},
                {"bars", json::array()}};
  Rows rows;
  for (const json& row : sweep->at("rows")) {
    const Interval rate = row.at("rate").get<Interval>();
    const auto workers = row.at("workers").get<int64_t>();
    const std::string name = workers < 0 ? "auto" : std::to_string(workers);
    chart["labels"].push_back(workers < 0 ? "auto"
                                          : name + (workers == 1 ? " worker" : " workers"));
    chart["bars"].push_back({{"value", rate.middle}, {"low", rate.low}, {"high", rate.high}});
    rows.push_back({name, fmt::format("{:.0f}", rate.middle), fmt::format("{:.0f}", rate.low),
                    fmt::format("{:.0f}", rate.high)});
  }
  html.figure("Images per second by workers", chart, {"Workers", "Images/s", "From", "To"}, rows);
}

void show_memory(Html& html, const Store& store) {
  const json* memory = store.find("memory");
  if (memory == nullptr) return;
  html.element("h2", "What a step holds", {{"id", "memory"}});
  html.element("p", "Bytes in live tensors over " + memory->value("workload", "") +
                        ": they grow through forward and shrink through backward.");
  json chart = {{"type", "lines"},
                {"x", {{"title", "milliseconds since the step began"}}},
                {"y", {{"title", "MB"}, {"begin", true}}},
                {"series", json::array()}};
  Rows rows;
  for (const json& trace : memory->at("traces")) {
    json points = json::array();
    double most = 0, last = 0;
    for (const json& point : trace.at("points")) {
      last = point.at(0).get<double>() / 1e3;
      const double megabytes = point.at(1).get<double>() / 1e6;
      most = std::max(most, megabytes);
      points.push_back({last, megabytes});
    }
    chart["series"].push_back(
        {{"name", trace.at("name")}, {"points", points}, {"line", true}, {"stepped", true}});
    rows.push_back({trace.at("name").get<std::string>(), fmt::format("{:.1f}", most),
                    fmt::format("{:.0f}", last)});
  }
  html.figure("Memory over one training step", chart, {"Script", "Most, MB", "Step, ms"}, rows);
}

void show_learning(Html& html, const std::vector<Measured>& all) {
  bool begun = false;
  for (const Measured& measured : all) {
    for (const LearningResult& learning : measured.learning) {
      if (!begun) {
        html.element("h2", "What is learned", {{"id", "learning"}});
        html.element("p",
                     "The training loss of the same number of steps, off and on, from the "
                     "same starting weights: the mean over several seeds, smoothed.");
        begun = true;
      }
      learning_figure(html, measured, learning);
    }
  }
}

void show_failures(Html& html, const Store& store) {
  Rows rows;
  for (const json& line : store.lines()) {
    if (line["kind"] != "failure") continue;
    store.reading(&line, [&] {
      const std::string part = line.value("part", ""), id = line.value("id", "");
      if (store.find(part, id) != nullptr) return;  // it was measured later
      rows.push_back({id.empty() ? part : id, line.value("error", "")});
    });
  }
  if (rows.empty()) return;
  html.element("h2", "What failed", {{"id", "failures"}});
  html.table("Techniques that could not be measured", {"Technique", "Error"}, rows);
}

}  // namespace

void write_study_page(const Store& store, const std::string& bench) {
  const std::vector<Measured> all = read_measured(store);
  Html html;
  const auto show = [&](const char* kind, void (*part)(Html&, const Store&)) {
    store.reading(store.find(kind), [&] { part(html, store); });
  };
  show("start", show_machine);
  show_overview(html, all);
  show(kLadder, show_ladder);
  show_claims(html, store, all);
  html.element("h2", "Each technique", {{"id", "techniques"}});
  show_cards(html, all);
  show("sweep", show_sweep);
  show("memory", show_memory);
  show_learning(html, all);
  show(kScaling, show_scaling);
  if (!bench.empty()) show_roofline(html, bench);
  show_failures(html, store);
  const std::vector<std::pair<std::string, std::string>> names = {
      {"overview", "What helped"},  {"ladder", "The ladder"}, {"claims", "The articles' claims"},
      {"techniques", "Techniques"}, {"loader", "The loader"}, {"memory", "Memory"},
      {"learning", "Learning"},     {"scaling", "Scaling"},   {"roofline", "Kernels"},
      {"failures", "Failures"}};
  std::vector<std::pair<std::string, std::string>> sections;
  for (const auto& name : names) {
    if (html.str().find("<h2 id=\"" + name.first + "\"") != std::string::npos) {
      sections.push_back(name);
    }
  }
  const json* start = store.find("start");
  std::string when;
  store.reading(start, [&] { when = start == nullptr ? "" : start->value("time", ""); });
  write_file(store.page(),
             page("What each optimization is worth here",
                  fmt::format("A study by wick, {}, in {}", when, store.folder()), sections, html));
  write_summary(store, all);
}

}  // namespace wick::study
