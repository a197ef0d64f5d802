#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "wick/core/base/check.h"

namespace wick {

/// Options that cannot be used: a wrong value, or a file that holds none.
class OptionError : public Error {
 public:
  using Error::Error;
};

/// The value of an option is out of its range, or does not go with another option.
/// what(): "option max_steps: got 0, expected 1 or more".
class InvalidOption : public OptionError {
 public:
  InvalidOption(const std::string& option, const std::string& problem)
      : OptionError(concat("option ", option, ": ", problem)), option_(option), problem_(problem) {}

  /// Its key in a configuration file: "max_steps".
  const std::string& option() const { return option_; }
  /// "got 0, expected 1 or more"
  const std::string& problem() const { return problem_; }

 private:
  std::string option_, problem_;
};

/// Throws InvalidOption unless `holds`. The problem is told by its parts.
template <class... Parts>
void require(bool holds, const char* option, const Parts&... problem) {
  if (!holds) throw InvalidOption(option, concat(problem...));
}

/// One option of a struct of options. A struct's options are a function `fields`, which is the only
/// place that lists them: files, command lines, checks and tables of the documentation follow it.
class OptionField {
 public:
  /// Where the value is. A list is a text of numbers in files and on command lines: "30,60".
  using Value = std::variant<bool*, int64_t*, double*, std::string*, std::vector<double>*,
                             std::optional<int64_t>*, std::optional<double>*>;

  /// `help` is a sentence without a full stop. `value` must outlive the field.
  OptionField(const char* key, Value value, const char* help)
      : key_(key), value_(value), help_(help) {}

  /// The least and the most of numbers.
  OptionField between(double least, double most) &&;
  /// 0 is allowed too: it switches off what the option is about.
  OptionField or_zero() &&;
  /// What a text may be.
  OptionField one_of(std::vector<std::string> names) &&;
  /// The same for the names in a registry, to which a program may add.
  OptionField one_registered(std::vector<std::string> names) &&;
  /// The word for no value, which else is null in files.
  OptionField or_word(const char* word) &&;
  /// The value of the flag without a word behind it.
  OptionField alone(const char* value) &&;
  /// A run that is resumed cannot change it.
  OptionField lasting() &&;
  /// Each rank of a run may have a value of its own.
  OptionField per_rank() &&;
  /// One of the few that most runs set: short help shows it.
  OptionField basic() &&;

  /// Its key in a configuration file: "max_steps".
  const std::string& key() const { return key_; }
  /// Where the value is.
  const Value& value() const { return value_; }
  /// With the names that the text may be.
  std::string help() const;
  /// The same without names of a registry.
  std::string meaning() const { return registered_ ? help_ : help(); }
  /// The names that the text may be; empty: any text.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& word() const { return word_; }
  const std::string& value_alone() const { return alone_; }
  bool is_lasting() const { return lasting_; }
  bool is_per_rank() const { return per_rank_; }
  bool is_basic() const { return basic_; }
  bool is_flag() const { return std::holds_alternative<bool*>(value_); }

  /// The value as JSON: 0.1, "auto", null.
  std::string as_json() const;
  /// The value as a command line has it: 0.1, auto; empty for none.
  std::string as_text() const;
  /// Sets the value from a word of a command line. InvalidOption for a word that is none; ranges
  /// and names are left to check().
  void parse(const std::string& word) const;
  /// InvalidOption unless the value is in its range, or one of the names, and UTF-8.
  void check() const;

 private:
  std::string key_;
  Value value_;
  std::string help_;
  std::vector<std::string> names_;
  double least_ = -std::numeric_limits<double>::infinity();
  double most_ = std::numeric_limits<double>::infinity();
  std::string word_, alone_;
  bool registered_ = false, or_zero_ = false, lasting_ = false, per_rank_ = false;
  bool basic_ = false;
};

using OptionFields = std::vector<OptionField>;

/// Checks each field.
void check(const OptionFields& fields);

/// A JSON object of all fields, in their order, indented by 2.
std::string to_json(const OptionFields& fields);

/// Sets the options that the JSON object in a file names, but for those of which `is_set(key)`
/// holds. OptionError for a file that cannot be read or is no such object, an unknown key, or a
/// value of the wrong kind.
void read_options(const OptionFields& fields, const std::string& path,
                  const std::function<bool(const std::string& key)>& is_set = nullptr);

/// InvalidOption for a value that is not one of `names`, with the name that is likely meant.
void check_name(const char* option, const std::string& value,
                const std::vector<std::string>& names);

/// The bytes that "600MB", "1.5GiB" or "4096" says. InvalidOption for anything else.
int64_t parse_bytes(const char* option, const std::string& text);

/// Whether `word` is digits, after a minus perhaps. Octal and hexadecimal numbers are not.
bool is_whole_number(const std::string& word);

/// " Did you mean NAME?" with the candidate that `word` is most likely a misspelling of; empty if
/// none is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace wick
