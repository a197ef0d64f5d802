#include "wick/tools/study/graph_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "wick/tools/study/html.h"

namespace wick::study {

namespace {

constexpr int kRow = 22, kLane = 9, kLetter = 7;  // pixels: of the height, width and text

// A value that rows below its own read.
struct Edge {
  size_t from = 0, lane = 0;
  std::vector<size_t> to = {};
};

class GraphPicture {
 public:
  explicit GraphPicture(const graph::Graph& graph)
      : graph_(graph), edges_of_(graph.values.size(), kNoEdge) {
    for (const graph::ValueId id : graph.inputs) add_row("input", id, "", {}, {id});
    for (const graph::Node& node : graph.nodes) add_node(node);
    for (const graph::ValueId id : graph.outputs) {
      if (id != graph::kNone) add_row("result", id, "", {id}, {});
    }
    choose_lanes();
  }

  std::string svg() const {
    const auto left = static_cast<int>(lanes_ + 1) * kLane + kLane;
    size_t letters = 0;
    for (const std::string& row : rows_) letters = std::max(letters, row.size());
    std::string text = fmt::format(
        "<svg class=\"graph\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" role=\"img\" aria-label=\"graph of the model\">",
        left + static_cast<int>(letters) * kLetter, static_cast<int>(rows_.size() + 1) * kRow);
    for (const Edge& edge : edges_) text += path(edge, left - kLane);
    for (size_t row = 0; row < rows_.size(); ++row) {
      text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", left, y_of(row) + 4,
                          escaped(rows_[row]));
    }
    return text + "</svg>\n";
  }

 private:
  static constexpr size_t kNoEdge = SIZE_MAX;

  void add_node(const graph::Node& node) {
    std::string name = node.body.empty() ? node.op.info().name : "";
    for (const graph::Node& part : node.body) {
      name += concat(name.empty() ? "" : " + ", part.op.info().name);
    }
    std::vector<graph::ValueId> reads, makes;
    for_each_input(node, [&](graph::ValueId id) { reads.push_back(id); });
    for_each_output(node, [&](graph::ValueId id) { makes.push_back(id); });
    add_row(name, makes.empty() ? graph::kNone : makes[0], node.place, reads, makes);
  }

  void add_row(const std::string& name, graph::ValueId shown, const std::string& place,
               const std::vector<graph::ValueId>& reads, const std::vector<graph::ValueId>& makes) {
    const size_t row = rows_.size();
    std::string text = name;
    if (shown != graph::kNone) {
      text += concat("  ", graph_.value(shown).dtype, graph_.value(shown).shape);
    }
    rows_.push_back(place.empty() ? text : concat(text, "  ", place));
    for (const graph::ValueId id : reads) {
      const size_t edge = edges_of_[static_cast<size_t>(id)];
      if (edge == kNoEdge) continue;
      std::vector<size_t>& to = edges_[edge].to;
      if (to.empty() || to.back() != row) to.push_back(row);
    }
    // What a node makes leaves it by one line.
    for (const graph::ValueId id : makes) edges_of_[static_cast<size_t>(id)] = edges_.size();
    if (!makes.empty()) edges_.push_back({.from = row});
  }

  // Lines that go past each other have lanes of their own; short ones are next to the text.
  void choose_lanes() {
    std::erase_if(edges_, [](const Edge& edge) { return edge.to.empty(); });
    std::vector<size_t> order(edges_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return edges_[a].to.back() - edges_[a].from < edges_[b].to.back() - edges_[b].from;
    });
    std::vector<std::vector<size_t>> lanes;
    for (const size_t i : order) {
      Edge& edge = edges_[i];
      const auto is_free = [&](const std::vector<size_t>& lane) {
        return std::none_of(lane.begin(), lane.end(), [&](size_t k) {
          return edges_[k].from < edge.to.back() && edge.from < edges_[k].to.back();
        });
      };
      edge.lane =
          static_cast<size_t>(std::find_if(lanes.begin(), lanes.end(), is_free) - lanes.begin());
      if (edge.lane == lanes.size()) lanes.emplace_back();
      lanes[edge.lane].push_back(i);
    }
    lanes_ = lanes.size();
  }

  static int y_of(size_t row) { return static_cast<int>(row + 1) * kRow; }

  // Out of its row, down its lane, and into each row that reads it.
  static std::string path(const Edge& edge, int right) {
    const int x = right - static_cast<int>(edge.lane + 1) * kLane;
    std::string d =
        fmt::format("M{} {}H{}V{}", right, y_of(edge.from) + 3, x, y_of(edge.to.back()) - 3);
    for (const size_t row : edge.to) {
      const int y = y_of(row) - 3;
      d += fmt::format("M{} {}H{}m-4 -3l4 3l-4 3", x, y, right);
    }
    return fmt::format("<path d=\"{}\"/>", d);
  }

  const graph::Graph& graph_;
  std::vector<std::string> rows_;
  std::vector<Edge> edges_;
  std::vector<size_t> edges_of_;  // by value
  size_t lanes_ = 0;
};

}  // namespace

std::string graph_picture(const graph::Graph& graph) { return GraphPicture(graph).svg(); }

}  // namespace wick::study
