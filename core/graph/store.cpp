#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "wick/core/file.h"
#include "wick/core/graph/detail/graph_ops.h"
#include "wick/core/graph/graph.h"
#include "wick/core/serialize.h"

// {"format": "wick.graph", "version": 1, "values": [...], "inputs": [ids], "constants": [...],
//  "nodes": [...], "outputs": [ids], "draws": 0, "device": "cpu"}
// A fused node is stored as its parts.
namespace wick::graph {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kVersion = 1;
constexpr uint64_t kMaxBytes = uint64_t{1} << 28;
constexpr size_t kMaxEntries = size_t{1} << 20;     // of a list
constexpr size_t kMaxJsonValues = size_t{1} << 22;  // of a file
constexpr size_t kMaxMembers = 100;                 // of an object
constexpr int kMaxDepth = 8;                        // graphs have 5

// --- Writing ------------------------------------------------------------------------------------

Json written(const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); }

// JSON has no numbers for those that are not finite.
Json written(const OpInstance& op, const NamedAttribute& attribute) {
  WICK_CHECK(!std::holds_alternative<std::monostate>(attribute.value), "graph: ", op.info().name,
             ": attribute ", attribute.name, " has no written form");
  if (const auto* real = std::get_if<double>(&attribute.value)) {
    if (std::isnan(*real)) return Json{{"real", "nan"}};
    if (std::isinf(*real)) return Json{{"real", *real > 0 ? "inf" : "-inf"}};
  }
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>)
          return nullptr;
        else
          return value;
      },
      attribute.value);
}

void append_node(const Node& node, Json& nodes) {
  for (const Node& part : node.body) append_node(part, nodes);
  if (!node.body.empty()) return;
  Json attributes = Json::object();
  for (const NamedAttribute& attribute : node.op.attributes()) {
    attributes[attribute.name] = written(node.op, attribute);
  }
  nodes.push_back({{"op", node.op.info().name},
                   {"mutates", node.op.info().mutates},
                   {"attributes", attributes},
                   {"inputs", node.inputs},
                   {"outputs", node.outputs},
                   {"kept", node.kept},
                   {"needs", node.needs},
                   {"draw", node.draw},
                   {"place", node.place}});
}

Json structure_of(const Graph& graph) {
  Json values = Json::array(), constants = Json::array(), nodes = Json::array();
  for (const Value& value : graph.values) {
    values.push_back({{"shape", written(value.shape)},
                      {"strides", written(value.strides)},
                      {"dtype", to_string(value.dtype)},
                      {"device", to_string(value.device)},
                      {"root", value.root}});
  }
  for (const Constant& constant : graph.constants) {
    constants.push_back(
        {{"value", constant.value}, {"name", constant.name}, {"copied", constant.copied}});
  }
  for (const Node& node : graph.nodes) append_node(node, nodes);
  return {
      {"format", "wick.graph"},   {"version", kVersion},    {"values", values},
      {"inputs", graph.inputs},   {"constants", constants}, {"nodes", nodes},
      {"outputs", graph.outputs}, {"draws", graph.draws},   {"device", to_string(graph.device)}};
}

std::string tensor_name(ValueId id) { return concat("constant.", id); }

// --- Reading ------------------------------------------------------------------------------------

// Takes a parsed file apart; whatever is not as it should be is an error that names the file.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Graph read() {
    const Json file = parse();
    WICK_CHECK(file.is_object() && file.value("format", Json()) == "wick.graph", "graph: ", path_,
               ": not a graph: expected \"format\": \"wick.graph\"");
    const int64_t version = whole(file, "version");
    WICK_CHECK(version == kVersion, "graph: ", path_, ": of another version: got ", version,
               ", expected ", kVersion);
    Graph graph;
    for (const Json& value : list(file, "values")) graph.values.push_back(read_value(value));
    graph.inputs = ids(file, "inputs");
    graph.outputs = ids(file, "outputs");
    graph.draws = whole(file, "draws");
    if (graph.draws < 0 || graph.draws > static_cast<int64_t>(kMaxEntries)) {
      refuse("impossible number of draws: got ", graph.draws);
    }
    graph.device = device(file);
    TensorMap tensors = load_safetensors(path_ + ".safetensors");
    const Json& constants = list(file, "constants");
    WICK_CHECK(tensors.size() == constants.size(), "graph: ", path_,
               ": wrong number of constants: got ", tensors.size(), " tensors, expected ",
               constants.size());
    for (const Json& constant : constants) read_constant(constant, graph, tensors);
    for (const Json& node : list(file, "nodes")) graph.nodes.push_back(read_node(node));
    named([&] { check(graph); });
    return graph;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    wick::detail::fail("graph: ", path_, ": ", parts...);
  }
  template <class Work>
  void named(const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  // Error for JSON that the parser would take much memory or time for: a value takes many times its
  // text, each level of brackets some, and each member of an object is compared with those before.
  void check_size(std::string_view json) const {
    size_t values = 0, members[kMaxDepth + 1] = {};
    bool is_object[kMaxDepth + 1] = {};
    int depth = 0;
    for (size_t i = 0; i < json.size(); ++i) {
      const char c = json[i];
      if (c == '"') {
        while (++i < json.size() && json[i] != '"') i += json[i] == '\\' ? 1 : 0;
      } else if (c == '[' || c == '{') {
        if (++depth > kMaxDepth) refuse("lists or objects lie too deep: more than ", kMaxDepth);
        is_object[depth] = c == '{';
        members[depth] = 0;
      } else if (c == ']' || c == '}') {
        if (--depth < 0) refuse("not valid JSON");
      } else if (c != ',') {
        continue;
      }
      if (++values > kMaxJsonValues) refuse("too many values: more than ", kMaxJsonValues);
      if (is_object[depth] && ++members[depth] > kMaxMembers) {
        refuse("an object has too many entries: more than ", kMaxMembers);
      }
    }
  }

  Json parse() const {
    const InputFile file(path_);
    WICK_CHECK(file.size() <= kMaxBytes, "graph: ", path_, ": too large: got ", file.size(),
               " bytes, expected at most ", kMaxBytes);
    std::string text(file.size(), '\0');
    file.read_at(0, text.data(), text.size());
    check_size(text);
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) refuse("not valid JSON");
    return json;
  }

  const Json& member(const Json& object, const char* key) const {
    if (!object.is_object()) refuse("an entry is not an object, where ", key, " is expected");
    const auto found = object.find(key);
    if (found == object.end()) refuse("an entry has no ", key);
    return *found;
  }
  const Json& list(const Json& object, const char* key) const {
    const Json& found = member(object, key);
    if (!found.is_array()) refuse(key, " is not a list");
    if (found.size() > kMaxEntries) refuse(key, " has too many entries: got ", found.size());
    return found;
  }
  int64_t whole(const Json& json, const char* key, bool is_it = false) const {
    const Json& found = is_it ? json : member(json, key);
    const bool fits = found.is_number_integer() &&
                      (!found.is_number_unsigned() || found.get<uint64_t>() <= INT64_MAX);
    if (!fits) refuse(key, " is not a whole number of 64 bits");
    return found.get<int64_t>();
  }
  std::string text(const Json& object, const char* key) const {
    const Json& found = member(object, key);
    if (!found.is_string()) refuse(key, " is not a text");
    return found.get<std::string>();
  }
  std::vector<int64_t> numbers(const Json& object, const char* key) const {
    std::vector<int64_t> all;
    for (const Json& number : list(object, key)) all.push_back(whole(number, key, true));
    return all;
  }
  std::vector<ValueId> ids(const Json& object, const char* key) const {
    std::vector<ValueId> all;
    for (const int64_t id : numbers(object, key)) {
      if (id < kNone || id > static_cast<int64_t>(kMaxEntries)) refuse("no such value: got ", id);
      all.push_back(static_cast<ValueId>(id));
    }
    return all;
  }
  Shape shape(const Json& object, const char* key) const {
    const std::vector<int64_t> sizes = numbers(object, key);
    if (sizes.size() > kMaxRank) refuse(key, " has too many axes: got ", sizes.size());
    return Shape(sizes);
  }
  Device device(const Json& object) const {
    Device device;
    named([&] { device = parse_device(text(object, "device")); });
    return device;
  }

  Value read_value(const Json& json) const {
    const std::optional<Dtype> dtype = parse_dtype(text(json, "dtype"));
    if (!dtype) refuse("no such dtype: got ", text(json, "dtype"));
    const int64_t root = whole(json, "root");
    if (root < 0 || root > static_cast<int64_t>(kMaxEntries)) refuse("no such root: got ", root);
    return {shape(json, "shape"), shape(json, "strides"), *dtype, device(json),
            static_cast<ValueId>(root)};
  }

  void read_constant(const Json& json, Graph& graph, TensorMap& tensors) const {
    const int64_t id = whole(json, "value");
    if (id < 0 || id >= static_cast<int64_t>(graph.values.size()))
      refuse("no such value: got ", id);
    const auto found = tensors.find(tensor_name(static_cast<ValueId>(id)));
    if (found == tensors.end()) refuse("constant ", id, " is not in the file of constants");
    const Value& want = graph.value(static_cast<ValueId>(id));
    const Tensor& read = found->second;
    if (!(read.shape() == want.shape) || read.dtype() != want.dtype) {
      refuse("constant ", id, " is not of its value's shape and dtype: got ", read.dtype(),
             read.shape(), ", expected ", want.dtype, want.shape);
    }
    if (!is_dense(want.shape, want.strides)) refuse("constant ", id, " has gaps in memory");
    Tensor tensor = empty_strided(want.shape, want.strides, want.dtype, want.device);
    tensor.copy_(read);
    const Json& copied = member(json, "copied");
    if (!copied.is_boolean()) refuse("copied is not true or false");
    graph.constants.push_back(
        {static_cast<ValueId>(id), std::move(tensor), text(json, "name"), copied.get<bool>()});
  }

  Attribute read_attribute(const Json& json, const std::string& op) const {
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_integer()) return whole(json, "an attribute", true);
    if (json.is_number_float()) return json.get<double>();
    if (json.is_string()) return json.get<std::string>();
    if (json.is_object()) {
      const std::string real = text(json, "real");
      if (real == "nan") return std::nan("");
      if (real == "inf") return HUGE_VAL;
      if (real == "-inf") return -HUGE_VAL;
    }
    if (!json.is_array()) refuse(op, " has an attribute of no known kind");
    std::vector<int64_t> all;
    for (const Json& number : json) all.push_back(whole(number, "an attribute", true));
    return all;
  }

  // Several ops may have one name: their attributes, or what they change, tell them apart.
  const OpType& type_of(const Json& json, const std::string& name) const {
    const Json& attributes = member(json, "attributes");
    if (!attributes.is_object()) refuse(name, ": attributes is not an object");
    const int64_t mutates = whole(json, "mutates");
    const auto fits = [&](const OpType& type) {
      if (type.info.name != name || type.info.mutates != mutates || type.create == nullptr) {
        return false;
      }
      const OpInstance op = created(type);
      const std::vector<NamedAttribute> own = op.attributes();
      return own.size() == attributes.size() &&
             std::all_of(own.begin(), own.end(), [&](const NamedAttribute& attribute) {
               return attributes.contains(attribute.name);
             });
    };
    for (const OpType* type : {&alias_type(), &empty_type()}) {
      if (fits(*type)) return *type;
    }
    for (const OpType* type : registered_ops()) {
      if (fits(*type)) return *type;
    }
    refuse("no op of this program is called ", name, " and has these attributes");
  }

  static OpInstance created(const OpType& type) {
    void* op = type.create();
    OpInstance instance(type, op);
    type.destroy(op);
    return instance;
  }

  Node read_node(const Json& json) const {
    const std::string name = text(json, "op");
    Node node{created(type_of(json, name))};
    for (const NamedAttribute& attribute : node.op.attributes()) {
      const Attribute value = read_attribute(json["attributes"][attribute.name], name);
      named([&] { node.op.set(attribute.name, value); });
    }
    node.inputs = ids(json, "inputs");
    node.outputs = ids(json, "outputs");
    node.kept = ids(json, "kept");
    const Json& needs = member(json, "needs");
    if (!needs.is_number_unsigned()) refuse(name, ": needs is not a set of inputs");
    node.needs = needs.get<uint64_t>();
    node.draw = whole(json, "draw");
    node.place = text(json, "place");
    const bool draws = node.draw >= 0;
    if (draws) named([&] { node.op.set("seed", int64_t{0}), node.op.set("offset", int64_t{0}); });
    return node;
  }

  const std::string& path_;
};

}  // namespace

void save(const Graph& graph, const std::string& path) {
  check(graph);
  const std::string text = structure_of(graph).dump(1, ' ', false, Json::error_handler_t::replace);
  TensorMap tensors;
  for (const Constant& constant : graph.constants) {
    tensors.emplace(tensor_name(constant.value), constant.tensor);
  }
  save_safetensors(path + ".safetensors", tensors);
  write_file(path, text + "\n");
}

Graph load(const std::string& path) { return Reader(path).read(); }

}  // namespace wick::graph
