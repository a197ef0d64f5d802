// Options in fields: words of a command line, files, checks.
#include "wick/core/options.h"

#include <gtest/gtest.h>

#include "wick/core/file.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

struct Options {
  bool fast = false;
  int64_t count = 3;
  double share = 0.5, mix = 0;
  std::string kind = "basic", text;
  std::vector<double> epochs;
  std::optional<int64_t> workers = 2;
  std::optional<double> rate;
};

OptionFields fields(Options& o) {
  return {OptionField("fast", &o.fast, "fast"),
          OptionField("count", &o.count, "a count").between(1, 10),
          OptionField("share", &o.share, "a share").between(0, 1),
          OptionField("mix", &o.mix, "a mix").between(0.1, 1).or_zero(),
          OptionField("kind", &o.kind, "kind").one_of({"basic", "color"}),
          OptionField("text", &o.text, "a text"),
          OptionField("epochs", &o.epochs, "epochs"),
          OptionField("workers", &o.workers, "workers").between(0, 9).or_word("auto"),
          OptionField("rate", &o.rate, "a rate").between(1e-6, 1)};
}

OptionField field(Options& options, const std::string& key) {
  for (OptionField& f : fields(options)) {
    if (f.key() == key) return f;
  }
  throw Error("no such field: " + key);
}

TEST(Options, AreParsedFromWords) {
  Options o;
  field(o, "fast").parse("true");
  field(o, "count").parse("7");
  field(o, "share").parse("1e-3");
  field(o, "epochs").parse("30,60.5");
  field(o, "workers").parse("auto");
  field(o, "rate").parse("0.25");
  EXPECT_TRUE(o.fast);
  EXPECT_EQ(o.count, 7);
  EXPECT_EQ(o.share, 1e-3);
  EXPECT_EQ(o.epochs, (std::vector<double>{30, 60.5}));
  EXPECT_FALSE(o.workers);
  EXPECT_EQ(o.rate, 0.25);
  EXPECT_EQ(field(o, "epochs").as_text(), "30,60.5");
  EXPECT_EQ(field(o, "workers").as_json(), "\"auto\"");
  EXPECT_EQ(field(o, "kind").help(), "kind: basic or color");
}

TEST(Options, RefuseWrongWords) {
  Options o;
  const auto refuses = [&](const char* key, const char* word, const char* problem) {
    expect_error([&] { field(o, key).parse(word); }, {key, problem});
  };
  refuses("count", "", "the value is empty");
  refuses("count", "010", "expected a whole number, got 010");
  refuses("count", "0x10", "expected a whole number");
  refuses("count", "99999999999999999999", "out of range");
  refuses("workers", "some", "expected a whole number or auto, got some");
  refuses("share", "half", "expected a number, got half");
  refuses("share", "1e999", "expected a number");
  refuses("fast", "yes", "expected true or false");
  for (const char* list : {"1,", ",1", "1,,2", "1;2"}) refuses("epochs", list, "expected numbers");
  EXPECT_EQ(o.count, 3);
}

TEST(Options, AreCheckedByRangeAndName) {
  Options o;
  check(fields(o));
  const auto refuses = [&](const char* key, const char* word, const char* problem) {
    Options wrong;
    field(wrong, key).parse(word);
    expect_error([&] { check(fields(wrong)); }, {key, problem});
  };
  refuses("count", "0", "out of range: got 0, expected 1 to 10");
  refuses("share", "nan", "out of range");
  refuses("share", "inf", "out of range");
  refuses("mix", "0.05", "out of range");
  refuses("rate", "2", "out of range: got 2, expected 1e-06 to 1");
  refuses("kind", "colour", "Did you mean color?");
  refuses("text", "\xff", "not UTF-8");
  o.workers.reset();
  o.rate.reset();
  check(fields(o));  // no value is in any range
}

TEST(Options, SurviveAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/options.json";
  Options written;
  written.fast = true;
  written.share = 0.1;
  written.epochs = {1, 2.5};
  written.workers.reset();
  written.text = "caf\xc3\xa9 \"quoted\"\n";
  write_file(path, to_json(fields(written)));
  Options read;
  read.count = 9;
  read_options(fields(read), path, [](const std::string& key) { return key == "count"; });
  EXPECT_EQ(read.count, 9);  // was set
  read.count = written.count;
  EXPECT_EQ(to_json(fields(read)), to_json(fields(written)));
}

TEST(Options, ATextMayBeAWholeNumberInAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/options.json";
  Options options;
  write_file(path, "{\"text\": 500}");
  read_options(fields(options), path);
  EXPECT_EQ(options.text, "500");
  write_file(path, "{\"text\": null}");
  read_options(fields(options), path);
  EXPECT_EQ(options.text, "");
}

TEST(Options, RefuseWrongFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/options.json";
  const auto refuses = [&](const std::string& text, const std::string& problem) {
    write_file(path, text);
    Options options;
    EXPECT_THROW(read_options(fields(options), path), OptionError) << text;
    expect_error([&] { read_options(fields(options), path); }, {"config: ", problem});
  };
  refuses("", "not a JSON object");
  refuses("[1]", "not a JSON object");
  refuses("{\"count\": 1, \"count\": 2}", "a key comes twice");
  refuses("{\"cuont\": 1}", "unknown key \"cuont\". Did you mean count?");
  refuses("{\"count\": 1.5}", "\"count\" has a value of the wrong kind: got number 1.5");
  refuses("{\"count\": 18446744073709551615}", "wrong kind");
  refuses("{\"fast\": 1}", "wrong kind");
  refuses("{\"share\": \"0.5\"}", "wrong kind");
  refuses("{\"text\": 0.5}", "wrong kind");
  refuses("{\"text\": [1]}", "wrong kind");
  refuses("{\"workers\": null}", "wrong kind");
  refuses("{\"rate\": \"auto\"}", "wrong kind");
  refuses("{\"epochs\": [1]}", "wrong kind");
  refuses("{\"text\": " + std::string(40, '[') + std::string(40, ']') + "}", "nested deeper");
  Options options;
  expect_error([&] { read_options(fields(options), folder.path() + "/none"); }, {"config: "});
}

TEST(Options, TellSizesInBytes) {
  EXPECT_EQ(parse_bytes("memory", "4096"), 4096);
  EXPECT_EQ(parse_bytes("memory", "600MB"), 600'000'000);
  EXPECT_EQ(parse_bytes("memory", "1.5gib"), int64_t{3} << 29);
  for (const char* word : {"", "MB", "0", "1.2.3", "-1", "1EB", "much", "1e3"}) {
    expect_error([&] { parse_bytes("memory", word); }, {"memory: not a size"});
  }
}

}  // namespace
}  // namespace wick::testing
