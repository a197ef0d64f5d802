#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "wick/data/packed.h"
#include "wick/tools/common/as_typed.h"
#include "wick/tools/common/number_flag.h"
#include "wick/tools/common/shell_word.h"
#include "wick/tools/common/usage_error.h"
#include "wick/tools/wick/data.h"

namespace wick::tool {

namespace {

struct PackFlags {
  std::string data, data_dir, out;
  bool raw = false, jpeg = false, json = false;
  int64_t size = 0;
  int quality = 90;
  data::ImageLimits limits;
};

// Only what this program could have written is replaced without a word, and no input.
void check_replaceable(const std::string& out, const std::string& input) {
  std::error_code error;
  if (!std::filesystem::exists(out, error)) return;
  if (!input.empty() && std::filesystem::equivalent(out, input, error)) {
    throw UsageError("data pack: --out: " + out + " is the data that is to be packed");
  }
  constexpr std::string_view kMagic = "WICKPACK";
  std::string begin(kMagic.size(), '\0');
  std::ifstream(out, std::ios::binary).read(begin.data(), std::ssize(begin));
  if (begin != kMagic) {
    throw UsageError("data pack: --out: " + out + " is there, and no packed file: remove it first");
  }
}

int pack(const PackFlags& flags) {
  using Form = data::PackOptions::Form;
  data::check({.name = flags.data, .dir = flags.data_dir});
  if (flags.out.empty()) throw UsageError("data pack: --out: the name is empty");
  check_replaceable(flags.out, flags.data_dir);
  if (flags.raw && flags.jpeg) throw UsageError("data pack: --raw and --jpeg: expected one");
  data::set_image_limits(flags.limits);
  const data::LabelledImages images = data::open_images(flags.data, flags.data_dir);
  const int64_t all = images.train->size() + images.test->size();
  {
    CountLine line(flags.json);
    data::pack_images(images, flags.out,
                      {.form = flags.raw    ? Form::kRaw
                               : flags.jpeg ? Form::kJpeg
                                            : Form::kAsTheyAre,
                       .shorter_side = flags.size,
                       .quality = flags.quality,
                       .progress = [&](int64_t done) { line.show("packed", done, all); }});
  }
  const std::string hash = data::PackedFile::open(flags.out)->content_hash();
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(flags.out));
  if (flags.json) {
    nlohmann::ordered_json line;
    line["file"] = flags.out;
    line["bytes"] = bytes;
    line["train"] = images.train->size();
    line["test"] = images.test->size();
    line["classes"] = images.train->class_names().size();
    line["sha256"] = hash;
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}: {} bytes, {} images to train on and {} to test with, {} classes\n", flags.out,
             bytes, images.train->size(), images.test->size(), images.train->class_names().size());
  fmt::print("content SHA-256 {}\n", hash);
  fmt::print("train on it with: {} --data packed --data-dir {}\n", as_typed("wick train"),
             shell_word(flags.out));
  return 0;
}

}  // namespace

void add_data_pack(CLI::App& data, Command& command) {
  CLI::App* sub = data.add_subcommand(
      "pack", "Writes a data set as one file that is read at the speed of memory");
  auto flags = std::make_shared<PackFlags>();
  sub->add_option("--data", flags->data, "the data set, as in wick train")->required();
  sub->add_option("--data-dir", flags->data_dir, "folder that holds its files, or its parent");
  sub->add_option("--out", flags->out, "the file to write")->required();
  sub->add_flag("--raw", flags->raw, "store pixels");
  sub->add_flag("--jpeg", flags->jpeg, "store JPEGs");
  sub->add_option("--size", flags->size,
                  "resize images whose shorter side has more pixels than this (0: none)")
      ->check(whole_number_in(0, 65536))
      ->capture_default_str();
  sub->add_option("--quality", flags->quality, "quality of JPEGs made here")
      ->check(whole_number_in(1, 100))
      ->capture_default_str();
  add_image_limits(*sub, flags->limits);
  sub->add_flag("--json", flags->json, "print one JSON object");
  sub->footer(
      "Without --raw and --jpeg a folder's files are stored as they are, other sets as pixels.\n"
      "Example: wick data pack --data imagefolder --data-dir photos --out photos.pack --size 256");
  sub->callback([flags, &command] { command = [flags] { return pack(*flags); }; });
}

}  // namespace wick::tool
