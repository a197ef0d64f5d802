#include "wick/core/serialize.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "wick/core/file.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/sanitized.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick {
namespace {

using wick::testing::bit_equal;
using wick::testing::make_tensor;
using wick::testing::TemporaryFolder;

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes + rest;
}

std::string with_header(const std::string& header, size_t data_bytes = 0) {
  return with_length(header.size(), header + std::string(data_bytes, '\0'));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// The error of reading a file with these bytes; empty if it can be read.
std::string loading_error(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  write_file(path, bytes);
  try {
    load_safetensors(path);
    return "";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.what();
  }
}

struct BadFile {
  std::string bytes;
  std::string reason;  // part of the error
};

const std::string kGood = entry("F32", "[2]", "[0,8]");

std::vector<BadFile> bad_frames() {
  return {
      {"", "has 0 bytes, expected at least 8"},
      {"1234567", "has 7 bytes"},
      {with_length(0, ""), "not valid JSON"},
      {with_length(3, "{}"), "has 3 bytes, but only 2"},
      {with_length(100'000'001, "{}"), "expected at most 100000000"},
      {with_length(UINT64_MAX, "{}"), "expected at most 100000000"},
      {with_length(UINT64_MAX - 7, "{}"), "expected at most 100000000"},
      {with_length(99'999'999, "{}"), "but only 2"},
      {std::string("PK\x03\x04\x14\x00\x08\x08 archive/data.pkl", 24), "Python pickle"},
      {"\x80\x02}q\x01(X\x06weight", "Python pickle"},
      {with_header("{}", 1), "1 bytes after the last tensor"},
      {with_header("{}{}"), "not valid JSON"},
      {with_header("{} x"), "not valid JSON"},
      {with_header(std::string("{}\0", 3)), "not valid JSON"},
      {with_header("\xEF\xBB\xBF{}"), "not valid JSON"},
      {with_header("{"), "not valid JSON"},
      {with_header(""), "not valid JSON"},
      {with_header("[]"), "a list where none belongs"},
      {with_header("5"), "a number where none belongs"},
      {with_header("null"), "null where none belongs"},
      {with_header("\"text\""), "a text where none belongs"},
      {with_header(std::string(1'000'000, '[')), "a list where none belongs"},
      {with_header("{\"a\":" + std::string(1'000'000, '{')), "not valid JSON"},
      {with_header("{\"a\xff\":" + kGood + "}", 8), "not valid JSON"},
      {with_header("{\"a\xed\xa0\x80\":" + kGood + "}", 8), "not valid JSON"},
      {with_header("{\"" + std::string(1'100'000, 'a') + "\":1}"), "longer than 1048576"},
      {with_header("{" + std::string(1'100'000, ' ') + "}"), "longer than 1048576"},
  };
}

std::vector<BadFile> bad_entries() {
  const auto one = [](const std::string& text, size_t data = 8) {
    return with_header("{\"a\":" + text + "}", data);
  };
  return {
      {one("1"), "'a': a number where none belongs"},
      {one("[]"), "a list where none belongs"},
      {one("{}"), "dtype, shape or data_offsets is missing"},
      {one(R"({"dtype":"F32","shape":[2]})"), "is missing"},
      {one(R"({"dtype":"F32","data_offsets":[0,8]})"), "is missing"},
      {one(R"({"shape":[2],"data_offsets":[0,8]})"), "is missing"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"), "unknown key 'x'"},
      {one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
       "dtype appears twice"},
      {one(R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})"),
       "shape appears twice"},
      {one(R"({"dtype":32,"shape":[2],"data_offsets":[0,8]})"), "a number where none belongs"},
      {one(R"({"dtype":{"a":1},"shape":[2],"data_offsets":[0,8]})"), "an object where none"},
      {one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), "a number where none belongs"},
      {one(R"({"dtype":"F32","shape":null,"data_offsets":[0,8]})"), "null where none belongs"},
      {one(entry("F31", "[2]", "[0,8]")), "dtype 'F31' is not supported"},
      {one(entry("f32", "[2]", "[0,8]")), "dtype 'f32' is not supported"},
      {one(entry("", "[2]", "[0,8]")), "dtype '' is not supported"},
      {one(entry("F4", "[3]", "[0,1]"), 1), "dtype 'F4' is not supported"},
      {one(entry("F32", "[-2]", "[0,8]")), "negative number -2"},
      {one(entry("F32", "[2.0]", "[0,8]")), "'2.0' is not an integer"},
      {one(entry("F32", "[2e0]", "[0,8]")), "'2e0' is not an integer"},
      {one(entry("F32", "[18446744073709551616]", "[0,8]")), "is not an integer below 2^64"},
      {one(entry("F32", "[18446744073709551615]", "[0,8]")), "is too large"},
      {one(entry("F32", "[true]", "[0,8]")), "a boolean where none belongs"},
      {one(entry("F32", "[\"2\"]", "[0,8]")), "a text where none belongs"},
      {one(entry("F32", "[NaN]", "[0,8]")), "not valid JSON"},
      {one(entry("F32", "[[2]]", "[0,8]")), "a list where none belongs"},
      {one(entry("F32", "[{}]", "[0,8]")), "an object where none belongs"},
      {one(entry("F32", "[2,1,1,1,1,1,1,1,1]", "[0,8]")), "rank is above 8"},
      {one(entry("F32", "[2,9223372036854775806]", "[0,8]")), "overflows"},
      {one(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0), "overflows"},
      {one(entry("F32", "[0,4294967296,4294967296]", "[0,0]"), 0), "overflows"},
      {one(entry("F32", "[2]", "[0]")), "data_offsets needs 2 numbers"},
      {one(entry("F32", "[2]", "[]")), "data_offsets needs 2 numbers"},
      {one(entry("F32", "[2]", "[0,8,8]")), "more than 2 numbers"},
      {one(entry("F32", "[2]", "[8,0]")), "are not within"},
      {one(entry("F32", "[2]", "[0,9]"), 8), "are not within"},
      {one(entry("F32", "[2]", "[-8,0]")), "negative number -8"},
      {one(entry("F32", "[2]", "[18446744073709551608,18446744073709551615]")), "not within"},
      {one(entry("F32", "[2]", "[0,4]")), "span 4 bytes, expected 8"},
      {one(entry("F32", "[3]", "[0,8]")), "span 8 bytes, expected 12"},
      {one(entry("F32", "[2]", "[0,8]"), 9), "1 bytes after the last tensor"},
      {one(entry("F32", "[2]", "[1,9]"), 9), "leaves a hole"},
  };
}

std::vector<BadFile> bad_sets() {
  const std::string b = entry("F32", "[2]", "[8,16]");
  return {
      {with_header("{\"a\":" + kGood + ",\"a\":" + b + "}", 16), "tensor 'a' appears twice"},
      {with_header("{\"a\":" + kGood + ",\"\\u0061\":" + b + "}", 16), "tensor 'a' appears twice"},
      {with_header("{\"a\":" + kGood + ",\"b\":" + kGood + "}", 8), "overlaps"},
      {with_header("{\"a\":" + kGood + ",\"b\":" + entry("F32", "[2]", "[4,12]") + "}", 12),
       "overlaps"},
      {with_header("{\"a\":" + kGood + ",\"b\":" + entry("F32", "[2]", "[12,20]") + "}", 20),
       "leaves a hole"},
      {with_header("{\"a\":" + kGood + ",\"b\":" + entry("F32", "[0]", "[4,4]") + "}", 8),
       "overlaps"},
      {with_header(R"({"__metadata__":{"a":1}})"), "metadata: a number where none belongs"},
      {with_header(R"({"__metadata__":{"a":null}})"), "metadata: null where none belongs"},
      {with_header(R"({"__metadata__":{"a":["b"]}})"), "a list where none belongs"},
      {with_header(R"({"__metadata__":{"a":{}}})"), "an object where none belongs"},
      {with_header(R"({"__metadata__":"a"})"), "a text where none belongs"},
      {with_header(R"({"__metadata__":{"a":"1","a":"2"}})"), "metadata key 'a' appears twice"},
      {with_header(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ appears twice"},
      {with_length(66, "{\"m\":" + entry("BOOL", "[2]", "[0,2]") + "}" + std::string(11, ' ') +
                           std::string("\1\2", 2)),
       "element 1 of a BOOL tensor is 2"},
  };
}

void expect_rejected(const std::vector<BadFile>& files) {
  for (const BadFile& file : files) {
    const std::string error = loading_error(file.bytes);
    EXPECT_NE(error.find(file.reason), std::string::npos)
        << "expected \"" << file.reason << "\", got \"" << error << "\" for "
        << file.bytes.substr(0, 200);
  }
}

TEST(Safetensors, RejectsBadFrames) { expect_rejected(bad_frames()); }
TEST(Safetensors, RejectsBadEntries) { expect_rejected(bad_entries()); }
TEST(Safetensors, RejectsBadSets) { expect_rejected(bad_sets()); }

TEST(Safetensors, RejectsTooManyTensors) {
  std::string header = "{";
  for (int i = 0; i < 65'537; ++i) {
    header += concat(i == 0 ? "" : ",", "\"", i, "\":", entry("U8", "[0]", "[0,0]"));
  }
  expect_rejected({{with_header(header + "}"), "more than 65536 tensors"}});
}

TEST(Safetensors, RejectsWhatIsNotAFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(load_safetensors(folder.path("missing")), Error);
  EXPECT_THROW(load_safetensors(folder.path("")), Error);
  EXPECT_THROW(load_safetensors("/dev/zero"), Error);
}

TEST(Safetensors, AcceptsPaddingRankZeroAndNoElements) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  write_file(path, with_header("  {\"b\":" + entry("F32", "[]", "[0,4]") +
                                   ",\n\"a\":" + entry("I64", "[3,0]", "[4,4]") +
                                   ",\"c\":" + entry("U8", "[0]", "[0,0]") + "}   ",
                               4));
  const TensorMap tensors = load_safetensors(path);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors.at("b").shape(), (Shape{}));
  EXPECT_EQ(tensors.at("b").item(), 0);
  EXPECT_EQ(tensors.at("a").shape(), (Shape{3, 0}));
  EXPECT_EQ(tensors.at("a").dtype(), kInt64);
  write_file(path, with_header("{}"));
  EXPECT_TRUE(load_safetensors(path).empty());
}

TEST(Safetensors, RoundTripsEveryDtype) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  TensorMap tensors;
  for (const Dtype dtype :
       {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8, kBool}) {
    const std::string name(to_string(dtype));
    tensors[name] = make_tensor({{3, 2}, {0, 1, 2, 100, 7, 0}}, dtype);
    tensors[name + ".scalar"] = make_tensor({{}, {1}}, dtype);
    tensors[name + ".empty"] = make_tensor({{0, 4}, {}}, dtype);
  }
  tensors["naïve \"name\"\n"] = make_tensor({{1}, {-0.0}}, kFloat32);
  save_safetensors(path, tensors, {{"format", "pt"}, {"note", "π"}});

  TextMap metadata;
  const TensorMap loaded = load_safetensors(path, &metadata);
  EXPECT_EQ(metadata, (TextMap{{"format", "pt"}, {"note", "π"}}));
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(bit_equal(loaded.at(name), tensor)) << name;
  }
}

TEST(Safetensors, WritesTheFormatPyTorchReads) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  save_safetensors(
      path, {{"b", make_tensor({{2}, {1, 2}}, kUint8)}, {"c", make_tensor({{1}, {1}}, kFloat32)}});
  const std::string bytes = read_file(path, 10'000);
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  const size_t padded = (header.size() + 7) / 8 * 8;
  EXPECT_EQ(bytes, with_length(padded, header + std::string(padded - header.size(), ' ') +
                                           std::string("\0\0\x80\x3f\1\2", 6)));
}

TEST(Safetensors, RejectsWhatCannotBeWritten) {
  const TemporaryFolder folder;
  const Tensor one = make_tensor({{1}, {1}}, kFloat32);
  const std::string path = folder.path("x.safetensors");
  EXPECT_THROW(save_safetensors(path, {{"a", Tensor()}}), Error);
  EXPECT_THROW(save_safetensors(path, {{"__metadata__", one}}), Error);
  EXPECT_THROW(save_safetensors(path, {{"\xff", one}}), Error);
  EXPECT_THROW(save_safetensors(path, {{"a", one}}, {{"k", "\xff"}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
}

// By how much the memory of this process grew, at most, during `action`, in bytes.
int64_t peak_growth(const std::function<void()>& action) {
  const auto peak = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
    }
    return 0LL;
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew
  const int64_t before = peak();
  action();
  return peak() - before;
}

TEST(Safetensors, HoldsNoMoreThanTheFileAnd16Megabytes) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers use memory of their own";
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  std::string header = "{\"__metadata__\":{\"\":\"\"";
  for (int i = 0; i < 40; ++i) {
    header += concat(",\"", i, "\":\"", std::string(1'000'000, 'x'), "\"");
  }
  header += "}";
  for (int i = 0; i < 65'536; ++i) {
    header += concat(",\"a tensor's name that is long ", i, "\":", entry("U8", "[0]", "[0,0]"));
  }
  header += ",\"last\":1}";
  const auto size = static_cast<int64_t>(header.size());
  write_file(path, with_header(header));
  header = std::string();
  EXPECT_LE(peak_growth([&] { EXPECT_THROW(load_safetensors(path), Error); }),
            size + (int64_t{16} << 20));

  const int64_t bytes = int64_t{64} << 20;
  write_file(
      path,
      with_header("{\"a\":" + entry("U8", concat("[", bytes, "]"), concat("[0,", bytes, "]")) + "}",
                  static_cast<size_t>(bytes)));
  EXPECT_LE(peak_growth([&] { EXPECT_EQ(load_safetensors(path).size(), 1u); }),
            bytes + (int64_t{16} << 20));
}

}  // namespace
}  // namespace wick
