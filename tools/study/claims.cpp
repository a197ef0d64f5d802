#include "wick/tools/study/claims.h"

#include <algorithm>

namespace wick::study {

namespace {

using nlohmann::json;

// A figure that an article gives, and why it may not hold.
struct Claim {
  const char* article;
  const char* words;
  const char* technique;
  double ratio;  // of speed, that the article promises at least; 1: it gives no figure
  const char* why_not;
};

constexpr Claim kClaims[] = {
    {"000", "one worker is 1.2 times as fast at worst", "workers", 1.2,
     "A worker gains what loading takes beside the step, and no more; where all cores compute it "
     "shares theirs. Article 000's figure is of a GPU that waited for its loader."},
    {"000", "one worker and pinned memory: 1.22 times at worst", "pinned-memory", 1.22,
     "It is about copies to a GPU."},
    {"000", "the more workers the better", "more-workers", 1,
     "Workers beyond the free cores take turns with each other and with what computes. Article "
     "003's own table has an optimum."},
    {"000", "mixed precision is at least twice as fast", "bfloat16", 2,
     "That is so where 16-bit multiplications are several times as fast (tensor cores, AMX). "
     "Elsewhere half the bytes are all there is to gain, and casts have to be paid. The article's "
     "own source says 1.5 to 5.5 times, on one GPU."},
    {"000, 004", "a large batch is faster: 4 times from 64 to 512", "huge-batch", 4,
     "Throughput is flat once the processor is busy, on a CPU from small batches on; then larger "
     "ones fall out of the caches."},
    {"004", "a fused optimizer makes a step 5 % faster", "fused-optimizer", 1.05,
     "The update's share of a step decides: it is large for small batches and large layers."},
    {"000", "no bias before batch norm is a clear gain in speed", "no-bias-before-norm", 1,
     "A bias is one number per channel; adding it is a small part of a convolution, and here it is "
     "part of the convolution's own pass."},
    {"000, 004", "gradients set to none instead of zero", "set-to-none", 1,
     "Zeroing is a pass over the gradients, small beside forward and backward. Article 004 itself "
     "warns not to expect wonders."},
    {"001, 004", "cuDNN's autotuner speeds convolutions up", "conv-autotuning", 1,
     "It gains what the rule for unmeasured shapes gets wrong."},
};

// The best number of workers over the worst.
Interval sweep_gain(const json& sweep) {
  std::vector<Interval> rates;
  for (const json& row : sweep.at("rows")) rates.push_back(row.at("rate").get<Interval>());
  if (rates.empty()) return {};
  const auto [worst, best] =
      std::minmax_element(rates.begin(), rates.end(),
                          [](const Interval& a, const Interval& b) { return a.middle < b.middle; });
  return {best->middle / worst->middle, best->low / worst->high, best->high / worst->low};
}

std::string measured_text(const Interval& ratio) {
  return ratio_text(ratio.middle) + " (" + ratio_text(ratio.low) + " to " + ratio_text(ratio.high) +
         ")";
}

std::string judge(const Interval& measured, double promised) {
  if (measured.low >= promised && measured.middle > promised) return "holds";
  if (measured.high >= promised) return "not clear";
  return "does not hold";
}

}  // namespace

void show_claims(Html& html, const Store& store, const std::vector<Measured>& all) {
  std::vector<std::vector<std::string>> rows;
  for (const Claim& claim : kClaims) {
    const auto measured = std::find_if(all.begin(), all.end(), [&](const Measured& m) {
      return m.technique->id == std::string(claim.technique);
    });
    if (measured == all.end()) continue;
    const std::string promised = claim.ratio > 1 ? ratio_text(claim.ratio) : "faster";
    std::vector<std::string> row = {claim.words, claim.article, promised};
    if (measured->cases.empty()) {
      const bool gpu = measured->technique->needs_gpu;
      row.insert(row.end(), {"–", gpu ? "needs a GPU" : "not measured", ""});
    } else {
      const Interval& speed = measured->cases[0].comparison.speed;
      const Verdict gained = speed_verdict(measured->cases[0].comparison);
      const std::string verdict = claim.ratio > 1               ? judge(speed, claim.ratio)
                                  : gained == Verdict::kGain    ? "holds"
                                  : gained == Verdict::kUnclear ? "not clear"
                                                                : "does not hold";
      row.insert(row.end(), {ratio_text(speed.middle) + " (" + ratio_text(speed.low) + " to " +
                                 ratio_text(speed.high) + ")",
                             verdict, verdict == "holds" ? "" : claim.why_not});
    }
    rows.push_back(std::move(row));
  }
  if (const json* sweep = store.find("sweep")) {
    Interval gain;
    store.reading(sweep, [&] { gain = sweep_gain(*sweep); });
    const std::string verdict = judge(gain, 2);
    rows.push_back({"the right number of workers is worth 2 times, from the worst setting", "003",
                    ratio_text(2), measured_text(gain), verdict,
                    verdict == "holds" ? "" : "Loading scales with the cores there are."});
  }
  html.element("h2", "The articles' claims", {{"id", "claims"}});
  html.element("p",
               "What the articles promise for training as a whole, beside what it was here, on "
               "the workload where it should matter. Most of their figures are of GPUs.");
  html.table("Claims and measurements",
             {"Claim", "Article", "Promised", "Measured", "", "Why not here"}, rows);
  for (const char* number : {"000", "001", "003", "004"}) {
    html.element("p", std::string("Article ") + number + ": " + article_title(number) + ".",
                 {{"class", "note"}});
  }
}

}  // namespace wick::study
