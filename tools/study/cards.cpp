#include "wick/tools/study/cards.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "wick/core/profile/verdict.h"

namespace wick::study {

namespace {

using nlohmann::json;

constexpr double kMemoryWorthSaying = 0.05;
constexpr double kPointsWorthSaying = 0.005;  // of accuracy, 0 to 1

// JSON has no number that is not finite: null stands for it.
double number_or_nan(const json& value) { return value.is_number() ? value.get<double>() : NAN; }

LearningSide read_side(const json& side) {
  LearningSide result;
  result.loss = number_or_nan(side.at("loss"));
  result.accuracy = number_or_nan(side.at("accuracy"));
  for (const json& value : side.at("curve")) result.curve.push_back(number_or_nan(value));
  return result;
}

void badge(Html& html, Verdict verdict, const std::string& words) {
  html.element("span", words, {{"class", std::string("verdict ") + kind_of(verdict)}});
}

std::string percent(double ratio) { return fmt::format("{:.0f} %", 100 * std::fabs(ratio - 1)); }

void badges(Html& html, const Measured& measured) {
  bool any = false, clear = true;
  const auto say = [&](Verdict verdict, const std::string& words) {
    badge(html, verdict, words);
    any = true;
  };
  if (!measured.cases.empty()) {
    const Comparison& c = measured.cases[0].comparison;
    const Verdict speed = speed_verdict(c), memory = memory_verdict(c);
    if (speed == Verdict::kGain) say(speed, percent(c.speed.middle) + " faster");
    if (speed == Verdict::kLoss) say(speed, percent(c.speed.middle) + " slower");
    clear = speed != Verdict::kUnclear;
    if (memory == Verdict::kGain) say(memory, percent(1 / c.memory) + " less memory");
    if (memory == Verdict::kLoss) say(memory, percent(1 / c.memory) + " more memory");
  }
  for (const LearningResult& learning : measured.learning) {
    const Verdict verdict = learning_verdict(learning);
    clear = clear && verdict != Verdict::kUnclear;
    if (verdict == Verdict::kSame || verdict == Verdict::kUnclear) continue;
    say(verdict, fmt::format("{:+.1f} points of accuracy", 100 * learning.gain.middle));
  }
  if (any) return;
  const bool known = !measured.cases.empty() || !measured.learning.empty();
  badge(html, Verdict::kSame,
        known && clear                  ? "no difference"
        : known                         ? "not clear"
        : measured.technique->needs_gpu ? "needs a GPU"
                                        : "not measured");
}

// The interval of a ratio on an axis from `low` to `high`, as a drawing.
Markup interval_drawing(const Interval& speed) {
  const double reach = std::max({1.1, speed.high * 1.05, 1 / (speed.low * 0.95)});
  const auto place = [&](double ratio) {
    const double share = (std::log(ratio) + std::log(reach)) / (2 * std::log(reach));
    return 10 + 280 * std::clamp(share, 0.0, 1.0);
  };
  const auto line = [](double x1, double x2, double y1, double y2, const char* name) {
    return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>", name,
                       x1, x2, y1, y2);
  };
  std::string svg = "<svg class=\"interval\" viewBox=\"0 0 300 32\" aria-hidden=\"true\">" +
                    line(10, 290, 12, 12, "axis") + line(150, 150, 2, 22, "one") +
                    line(place(speed.low), place(speed.high), 12, 12, "range") +
                    fmt::format("<circle cx=\"{:.1f}\" cy=\"12\" r=\"4.5\"/>", place(speed.middle));
  const auto label = [](double x, double ratio, const char* anchor) {
    return fmt::format("<text x=\"{}\" y=\"31\" text-anchor=\"{}\">{}</text>", x, anchor,
                       ratio_text(ratio));
  };
  svg += label(10, 1 / reach, "start") + label(150, 1, "middle") + label(290, reach, "end");
  return {svg + "</svg>\n"};
}

// A bar of one side: as long as its images take, in parts by what bounds them.
std::string bar(const Shares& shares, double width, int y, const char* name) {
  std::string svg = fmt::format("<text x=\"0\" y=\"{}\">{}</text>", y + 10, name);
  double x = 50;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double length = width * shares[i];
    svg += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"12\"/>",
                       profile::to_string(static_cast<profile::Bound>(i)), x, y, length);
    x += length;
  }
  return svg;
}

// Where the time of an image goes, without and with: two bars, and the same in words.
void show_bounds(Html& html, const Comparison& c) {
  constexpr double kLongest = 240, kWorthNaming = 0.02;
  const Shares unknown = {};
  if (c.off_shares == unknown || c.on_shares == unknown) return;
  if (c.off.images_per_second <= 0 || c.on.images_per_second <= 0) return;
  const double slower = std::min(c.off.images_per_second, c.on.images_per_second);
  const auto width = [&](const SideFigures& side) {
    return kLongest * slower / side.images_per_second;
  };
  html.markup({"<svg class=\"bounds\" viewBox=\"0 0 300 30\" aria-hidden=\"true\">" +
               bar(c.off_shares, width(c.off), 1, "without") +
               bar(c.on_shares, width(c.on), 17, "with") + "</svg>\n"});
  html.open("p", {{"class", "bounds"}});
  html.text("time goes to ");
  const char* separator = "";
  for (size_t i = 0; i < profile::kBounds; ++i) {
    if (std::max(c.off_shares[i], c.on_shares[i]) < kWorthNaming) continue;
    const char* name = profile::to_string(static_cast<profile::Bound>(i));
    html.text(separator);
    html.element("span", name, {{"class", name}});
    html.text(fmt::format(" {:.0f} % to {:.0f} %", 100 * c.off_shares[i], 100 * c.on_shares[i]));
    separator = ", ";
  }
  html.close();
}

void show_case(Html& html, const CaseResult& result) {
  const Comparison& c = result.comparison;
  html.open("div", {{"class", "case"}});
  html.element("p", result.workload);
  html.open("div", {{"class", kind_of(speed_verdict(c))}});
  html.markup(interval_drawing(c.speed));
  html.close();
  html.open("p");
  html.element("span", ratio_text(c.speed.middle), {{"class", "figure"}});
  html.text(fmt::format(" ({} to {}, {} turns in {} processes): {} to {} images/s",
                        ratio_text(c.speed.low), ratio_text(c.speed.high), 2 * c.pairs,
                        2 * c.processes, fmt::format("{:.0f}", c.off.images_per_second),
                        fmt::format("{:.0f}", c.on.images_per_second)));
  html.close();
  show_bounds(html, c);
  if (c.off.peak_bytes > 0 && c.on.peak_bytes > 0) {
    html.element("p", fmt::format("peak memory {:.1f} to {:.1f} MB", c.off.peak_bytes / 1e6,
                                  c.on.peak_bytes / 1e6));
  }
  const bool waits = std::max(c.off.wait_share, c.on.wait_share) > 0.01;
  const bool only_loads = std::min(c.off.wait_share, c.on.wait_share) > 0.9;
  if (waits && !only_loads) {
    html.element("p", fmt::format("waiting for data {:.0f} % to {:.0f} % of the time",
                                  100 * c.off.wait_share, 100 * c.on.wait_share));
  }
  html.close();
}

void show_learned(Html& html, const LearningResult& learning) {
  html.open("div", {{"class", "case"}});
  html.element("p", fmt::format("{}, {} steps, {} seeds", learning.workload, learning.steps,
                                learning.seeds));
  html.element(
      "p",
      fmt::format("accuracy {:.1f} % to {:.1f} %: {:+.1f} points ({:+.1f} to {:+.1f})",
                  100 * learning.off.accuracy, 100 * learning.on.accuracy,
                  100 * learning.gain.middle, 100 * learning.gain.low, 100 * learning.gain.high));
  html.element("p",
               fmt::format("training loss {:.3f} to {:.3f}", learning.off.loss, learning.on.loss));
  html.close();
}

std::string sources(const std::string& articles) {
  if (articles == "beyond") return "Not in the articles.";
  return (articles.find(',') == std::string::npos ? "Article " : "Articles ") + articles + ".";
}

void show_card(Html& html, const Measured& measured) {
  const Technique& technique = *measured.technique;
  html.open("article", {{"class", "card"}, {"id", std::string("t-") + technique.id}});
  html.element("h3", technique.title);
  html.open("p", {{"class", "id"}});
  html.element("code", technique.id);
  html.close();
  badges(html, measured);
  html.element("p", technique.what);
  html.open("p");
  html.text("How: ");
  html.element("code", technique.knob);
  html.close();
  html.element("p", fmt::format("{} Page: docs/{}", sources(technique.articles), technique.page),
               {{"class", "source"}});
  for (const CaseResult& result : measured.cases) show_case(html, result);
  for (const LearningResult& learning : measured.learning) show_learned(html, learning);
  html.close();
}

// The mean of each `width` values.
json smoothed(const std::vector<double>& curve, size_t width) {
  json points = json::array();
  for (size_t begin = 0; begin < curve.size(); begin += width) {
    const size_t end = std::min(curve.size(), begin + width);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += curve[i];
    const double mean = sum / static_cast<double>(end - begin);
    points.push_back({end, std::isfinite(mean) ? json(mean) : json()});
  }
  return points;
}

}  // namespace

const char* kind_of(Verdict verdict) {
  return verdict == Verdict::kGain ? "gain" : verdict == Verdict::kLoss ? "loss" : "same";
}

Verdict speed_verdict(const Comparison& comparison) {
  if (is_same(comparison)) return Verdict::kSame;
  if (!is_shown(comparison)) return Verdict::kUnclear;
  return comparison.speed.low > 1 ? Verdict::kGain : Verdict::kLoss;
}

Verdict memory_verdict(const Comparison& comparison) {
  if (comparison.off.peak_bytes <= 0 || comparison.on.peak_bytes <= 0) return Verdict::kSame;
  if (comparison.memory > 1 + kMemoryWorthSaying) return Verdict::kGain;
  if (1 / comparison.memory > 1 + kMemoryWorthSaying) return Verdict::kLoss;
  return Verdict::kSame;
}

Verdict learning_verdict(const LearningResult& learning) {
  const Interval& gain = learning.gain;
  if (gain.confidence < kLeastConfidence) return Verdict::kUnclear;
  if (gain.low > 0) return Verdict::kGain;
  if (gain.high < 0) return Verdict::kLoss;
  const bool small = gain.low > -kPointsWorthSaying && gain.high < kPointsWorthSaying;
  return small ? Verdict::kSame : Verdict::kUnclear;
}

std::string ratio_text(double ratio) {
  if (!std::isfinite(ratio)) return "–";
  return ratio >= 9.995 ? fmt::format("{:.1f}×", ratio) : fmt::format("{:.2f}×", ratio);
}

std::vector<Measured> read_measured(const Store& store) {
  std::vector<Measured> all;
  for (const Technique& technique : techniques()) {
    Measured measured;
    measured.technique = &technique;
    if (const json* line = store.find("technique", technique.id)) {
      store.reading(line, [&] {
        for (const json& entry : line->at("cases")) {
          measured.cases.push_back(
              {entry.at("workload").get<std::string>(), entry.at("comparison").get<Comparison>()});
        }
      });
    }
    if (const json* line = store.find("learning", technique.id)) {
      store.reading(line, [&] {
        for (const json& entry : line->at("learning")) {
          measured.learning.push_back(
              {entry.at("workload").get<std::string>(), entry.at("steps").get<int64_t>(),
               entry.at("seeds").get<int64_t>(), read_side(entry.at("off")),
               read_side(entry.at("on")), entry.at("gain").get<Interval>()});
        }
      });
    }
    all.push_back(std::move(measured));
  }
  return all;
}

void show_cards(Html& html, const std::vector<Measured>& all) {
  html.open("div", {{"class", "cards"}});
  for (const Measured& measured : all) show_card(html, measured);
  html.close();
}

void learning_figure(Html& html, const Measured& measured, const LearningResult& learning) {
  const size_t width = std::max<size_t>(1, learning.off.curve.size() / 30);
  const json off = smoothed(learning.off.curve, width), on = smoothed(learning.on.curve, width);
  const json chart = {{"type", "lines"},
                      {"size", "low"},
                      {"x", {{"title", "steps"}}},
                      {"y", {{"title", "training loss"}}},
                      {"series",
                       {{{"name", "without"}, {"points", off}, {"line", true}, {"dashed", true}},
                        {{"name", "with"}, {"points", on}, {"line", true}}}}};
  std::vector<std::vector<std::string>> rows;
  const auto loss = [](const json& point) {
    return point[1].is_number() ? fmt::format("{:.3f}", point[1].get<double>()) : "not finite";
  };
  for (size_t i = 0; i < off.size() && i < on.size(); ++i) {
    rows.push_back({std::to_string(off[i][0].get<int64_t>()), loss(off[i]), loss(on[i])});
  }
  html.figure(fmt::format("{}: {}", measured.technique->title, learning.workload), chart,
              {"Step", "Loss without", "Loss with"}, rows);
}

}  // namespace wick::study
