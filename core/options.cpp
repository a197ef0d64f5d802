#include "wick/core/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "wick/core/file.h"

namespace wick {

namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMostShown = 80;  // characters of a wrong value
constexpr uint64_t kMostFileBytes = 1 << 20;
constexpr int kMostDepth = 16;

std::string shown(const std::string& text) { return text.substr(0, kMostShown); }

// A value as an error shows it: what it is, and its text unless that is long or nested.
std::string shown(const json& value) {
  if (value.is_structured()) return value.type_name();
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return concat(value.type_name(), " ", shown(text), text.size() > kMostShown ? "..." : "");
}

bool is_utf8(const std::string& text) {
  const json value = text;
  return value.dump(-1, ' ', false, json::error_handler_t::ignore).size() ==
         value.dump(-1, ' ', false, json::error_handler_t::replace).size();
}

// "a, b or c"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += concat(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  return text;
}

// "30,60"
std::string list_text(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += concat(text.empty() ? "" : ",", value);
  return text;
}

template <class T>
bool read_number(const char* begin, const char* end, T& number) {
  const auto parsed = std::from_chars(begin, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// Sets values from words of a command line.
struct ParseWord {
  const OptionField& field;
  const std::string& word;

  [[noreturn]] void fail(const std::string& problem) const {
    throw InvalidOption(field.key(), problem);
  }

  void operator()(bool* value) const {
    if (word != "true" && word != "false" && word != "1" && word != "0") {
      fail(concat("expected true or false, got ", shown(word)));
    }
    *value = word == "true" || word == "1";
  }
  void operator()(std::string* value) const { *value = word; }
  void operator()(int64_t* value) const {
    const char* kind = field.word().empty() ? "" : " or ";
    if (!is_whole_number(word)) {
      fail(concat("expected a whole number", kind, field.word(), ", got ", shown(word)));
    }
    if (!read_number(word.data(), word.data() + word.size(), *value)) {
      fail(concat("out of range: got ", shown(word)));
    }
  }
  void operator()(double* value) const {
    if (!read_number(word.data(), word.data() + word.size(), *value)) {
      fail(concat("expected a number, got ", shown(word)));
    }
  }
  void operator()(std::vector<double>* values) const {
    values->clear();
    for (size_t begin = 0; begin < word.size() + !word.empty();) {
      const size_t end = std::min(word.size(), word.find(',', begin));
      double number = 0;
      if (!read_number(word.data() + begin, word.data() + end, number)) {
        fail(concat("got \"", shown(word), "\", expected numbers, such as 30,60"));
      }
      values->push_back(number);
      begin = end + 1;
    }
  }
  template <class T>
  void operator()(std::optional<T>* value) const {
    if (!field.word().empty() && word == field.word()) {
      value->reset();
    } else {
      T number{};
      (*this)(&number);
      *value = number;
    }
  }
};

// Sets values from JSON; false for a value of the wrong kind.
struct ReadJson {
  const OptionField& field;
  const json& from;

  bool operator()(bool* value) const {
    if (from.is_boolean()) *value = from.get<bool>();
    return from.is_boolean();
  }
  bool operator()(int64_t* value) const {
    const bool fits = from.is_number_integer() &&
                      !(from.is_number_unsigned() && from.get<uint64_t>() > INT64_MAX);
    if (fits) *value = from.get<int64_t>();
    return fits;
  }
  bool operator()(double* value) const {
    if (from.is_number()) *value = from.get<double>();
    return from.is_number();
  }
  bool operator()(std::string* value) const {
    // A whole number as it would be on a command line, and null for none.
    if (from.is_number_integer()) *value = from.dump();
    if (from.is_null()) value->clear();
    if (from.is_string()) *value = from.get<std::string>();
    return from.is_string() || from.is_number_integer() || from.is_null();
  }
  bool operator()(std::vector<double>* value) const {
    if (from.is_string()) ParseWord{field, from.get<std::string>()}(value);
    return from.is_string();
  }
  template <class T>
  bool operator()(std::optional<T>* value) const {
    if (field.word().empty() ? from.is_null() : from == field.word()) {
      value->reset();
      return true;
    }
    T number{};
    if (!(*this)(&number)) return false;
    *value = number;
    return true;
  }
};

template <class T>
json value_json(const OptionField&, const T& value) {
  return value;
}
json value_json(const OptionField&, const std::vector<double>& value) { return list_text(value); }
template <class T>
json value_json(const OptionField& field, const std::optional<T>& value) {
  if (value) return *value;
  return field.word().empty() ? json(nullptr) : json(field.word());
}

json field_json(const OptionField& field) {
  return std::visit([&](const auto* value) { return value_json(field, *value); }, field.value());
}

// The JSON object that `text` is. Error for keys that come twice, and for deep nesting.
json parse_object(const std::string& path, const std::string& text) {
  std::set<std::string> seen;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMostDepth) {
      throw OptionError(concat("config: ", path, ": nested deeper than ", kMostDepth));
    }
    if (event == json::parse_event_t::key && depth == 1 &&
        !seen.insert(value.get<std::string>()).second) {
      throw OptionError(concat("config: ", path, ": a key comes twice: ", shown(value)));
    }
    return true;
  };
  json values = json::parse(text, check, /*allow_exceptions=*/false);
  if (!values.is_object())
    throw OptionError(
        concat("config: ", path, ": not a JSON object, such as {\"batch_size\": 32}"));
  return values;
}

// Insertions, deletions and substitutions that turn one into the other (Levenshtein 1966).
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, above + 1, row[j - 1] + 1});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

bool is_whole_number(const std::string& word) {
  const std::string digits = word.substr(word.starts_with('-') ? 1 : 0);
  return !digits.empty() && (digits.size() == 1 || digits[0] != '0') &&
         digits.find_first_not_of("0123456789") == std::string::npos;
}

OptionField OptionField::between(double least, double most) && {
  least_ = least;
  most_ = most;
  return std::move(*this);
}
OptionField OptionField::or_zero() && {
  or_zero_ = true;
  return std::move(*this);
}
OptionField OptionField::one_of(std::vector<std::string> names) && {
  names_ = std::move(names);
  return std::move(*this);
}
OptionField OptionField::one_registered(std::vector<std::string> names) && {
  names_ = std::move(names);
  registered_ = true;
  return std::move(*this);
}
OptionField OptionField::or_word(const char* word) && {
  word_ = word;
  return std::move(*this);
}
OptionField OptionField::alone(const char* value) && {
  alone_ = value;
  return std::move(*this);
}
OptionField OptionField::lasting() && {
  lasting_ = true;
  return std::move(*this);
}
OptionField OptionField::per_rank() && {
  per_rank_ = true;
  return std::move(*this);
}

OptionField OptionField::basic() && {
  basic_ = true;
  return std::move(*this);
}

std::string OptionField::help() const {
  if (names_.empty()) return help_;
  return concat(help_, help_.empty() ? "" : ": ", listed(names_));
}

std::string OptionField::as_json() const {
  return field_json(*this).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string OptionField::as_text() const {
  const json value = field_json(*this);
  if (value.is_null()) return "";
  if (value.is_number_float()) return concat(value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void OptionField::parse(const std::string& word) const {
  if (word.empty()) throw InvalidOption(key_, "the value is empty");
  std::visit(ParseWord{*this, word}, value_);
}

void OptionField::check() const {
  const auto check_range = [&](auto value) {
    const auto number = static_cast<double>(value);
    if ((number >= least_ && number <= most_) || (or_zero_ && number == 0)) return;
    throw InvalidOption(key_, concat("out of range: got ", value, ", expected ",
                                     or_zero_ ? "0, or " : "", least_, " to ", most_));
  };
  std::visit(
      [&](const auto* value) {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          if (!is_utf8(*value)) {
            throw InvalidOption(key_, "the value is not UTF-8: rename it, or link to it");
          }
          if (!names_.empty()) check_name(key_.c_str(), *value, names_);
        } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
          check_range(*value);
        } else if constexpr (requires { value->has_value(); }) {
          if (*value) check_range(**value);
        }
      },
      value_);
}

void check(const OptionFields& fields) {
  for (const OptionField& field : fields) field.check();
}

std::string to_json(const OptionFields& fields) {
  json values;
  for (const OptionField& field : fields) values[field.key()] = field_json(field);
  return values.dump(2);
}

void read_options(const OptionFields& fields, const std::string& path,
                  const std::function<bool(const std::string& key)>& is_set) {
  std::string text;
  try {
    text = read_file(path, kMostFileBytes);
  } catch (const Error& error) {
    throw OptionError(concat("config: ", error.what()));
  }
  const json values = parse_object(path, text);
  std::vector<std::string> keys;
  for (const OptionField& field : fields) keys.push_back(field.key());
  for (const auto& [key, value] : values.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    throw OptionError(concat("config: ", path, ": unknown key \"", shown(key), "\".",
                             suggestion(shown(key), keys)));
  }
  for (const OptionField& field : fields) {
    const auto found = values.find(field.key());
    if (found == values.end() || (is_set && is_set(field.key()))) continue;
    if (std::visit(ReadJson{field, *found}, field.value())) continue;
    throw OptionError(concat("config: ", path, ": \"", field.key(),
                             "\" has a value of the wrong kind: got ", shown(*found)));
  }
}

void check_name(const char* option, const std::string& value,
                const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), value) != names.end()) return;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw InvalidOption(option, concat("unknown value: got \"", shown(value), "\", expected one of ",
                                     list, ".", suggestion(value, names)));
}

int64_t parse_bytes(const char* option, const std::string& text) {
  static const std::map<std::string, double> kUnits{
      {"", 1},         {"B", 1},    {"K", 1e3},      {"KB", 1e3},    {"KIB", 0x1p10},
      {"M", 1e6},      {"MB", 1e6}, {"MIB", 0x1p20}, {"G", 1e9},     {"GB", 1e9},
      {"GIB", 0x1p30}, {"T", 1e12}, {"TB", 1e12},    {"TIB", 0x1p40}};
  const size_t end = std::min(text.size(), text.find_first_not_of("0123456789."));
  std::string unit = text.substr(end);
  for (char& c : unit) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  const auto found = kUnits.find(unit);
  double number = 0;
  const bool is_number = read_number(text.data(), text.data() + end, number);
  const double bytes = found == kUnits.end() ? 0 : number * found->second;
  if (!is_number || !(bytes >= 1 && bytes <= 1e18)) {
    throw InvalidOption(
        option, concat("not a size: got \"", shown(text), "\", expected one like 600MB or 1.5GiB"));
  }
  return static_cast<int64_t>(bytes);
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool prefix = word.size() >= 3 && candidate.starts_with(word);
    const size_t d = prefix ? 1 : distance(word, candidate);
    if (d >= best_distance) continue;
    best_distance = d;
    best = &candidate;
  }
  return best == nullptr ? "" : " Did you mean " + *best + "?";
}

}  // namespace wick
