#include "wick/data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "wick/core/base/check.h"

namespace wick::data {

namespace {

namespace fs = std::filesystem;

// Sorted names within `folder` that are folders (or, if not `folders`, that are not).
std::vector<std::string> names_in(const fs::path& folder, bool folders) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code ignored;  // a dangling link is not a folder
    if (name[0] != '.' && it->is_directory(ignored) == folders) names.push_back(std::move(name));
  }
  WICK_CHECK(!error, folder.string(), ": cannot be listed: ", error.message(),
             ": expected train/CLASS/*.jpg and test/CLASS/*.jpg in the data's folder");
  std::sort(names.begin(), names.end());
  return names;
}

bool is_image(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The folder that has a train folder: `data_dir` or one within.
fs::path find_root(const fs::path& data_dir) {
  WICK_CHECK(!data_dir.empty(),
             "imagefolder: needs a data folder (--data-dir), which holds train/CLASS/NAME.jpg");
  if (is_folder(data_dir / "train")) return data_dir;
  std::vector<fs::path> found;
  for (const std::string& name : names_in(data_dir, true)) {
    if (is_folder(data_dir / name / "train")) found.push_back(data_dir / name);
  }
  WICK_CHECK(!found.empty(), "imagefolder: no folder train found: looked in ", data_dir.string(),
             " and its sub-folders, expected train/CLASS/NAME.jpg");
  WICK_CHECK(found.size() == 1, "imagefolder: ", data_dir.string(), " is ambiguous: got ",
             found[0].string(), " and ", found[1].string(),
             ", expected one folder with train in it");
  return found[0];
}

fs::path split_folder(const fs::path& root, Split split) {
  if (split == Split::kTrain) return root / "train";
  for (const char* name : {"test", "val"}) {
    if (is_folder(root / name)) return root / name;
  }
  detail::fail("imagefolder: no test images: expected ", (root / "test").string(), " or ",
               (root / "val").string());
}

}  // namespace

ImageFolder list_image_folder(const std::string& data_dir, Split split) {
  const fs::path root = find_root(data_dir), folder = split_folder(root, split);
  ImageFolder list;
  list.class_names = names_in(root / "train", true);
  WICK_CHECK(!list.class_names.empty(), (root / "train").string(),
             ": no class folders: expected CLASS/NAME.jpg");
  for (const std::string& name : names_in(folder, true)) {
    const auto known = std::lower_bound(list.class_names.begin(), list.class_names.end(), name);
    WICK_CHECK(known != list.class_names.end() && *known == name, (folder / name).string(),
               ": unknown class: expected one of the ", list.class_names.size(), " in ",
               (root / "train").string());
    const int64_t label = known - list.class_names.begin();
    const size_t before = list.files.size();
    for (const std::string& file : names_in(folder / name, false)) {
      if (is_image(file)) list.files.push_back({(folder / name / file).string(), label});
    }
    WICK_CHECK(split == Split::kTest || list.files.size() > before, (folder / name).string(),
               ": no images: expected .jpg, .jpeg or .png files");
  }
  WICK_CHECK(!list.files.empty(), folder.string(), ": no images: expected CLASS/NAME.jpg");
  return list;
}

}  // namespace wick::data
