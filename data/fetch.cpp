#include "wick/data/fetch.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "wick/core/base/cache_folder.h"
#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/detail/download.h"
#include "wick/data/detail/tar.h"

namespace wick::data {

namespace {

struct RemoteFile {
  std::string name;
  uint64_t bytes;
  std::string sha256;
};

// A data set as it lies on servers. Sums and sizes are those that TensorFlow Datasets publishes for
// these files (tensorflow_datasets/url_checksums).
struct RemoteSet {
  std::string name;
  std::vector<std::string> places;  // tried in turn
  std::vector<RemoteFile> files;
  std::vector<std::string> members;  // of the one file, if that is an archive: what to unpack
};

const std::vector<RemoteSet>& remote_sets() {
  static const std::vector<RemoteSet> sets = {
      {"mnist",
       {"https://storage.googleapis.com/cvdf-datasets/mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist"},
       {{"train-images-idx3-ubyte.gz", 9912422,
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
        {"train-labels-idx1-ubyte.gz", 28881,
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
        {"t10k-images-idx3-ubyte.gz", 1648877,
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
        {"t10k-labels-idx1-ubyte.gz", 4542,
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}},
       {}},
      {"fashion-mnist",
       {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"},
       {{"train-images-idx3-ubyte.gz", 26421880,
         "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
        {"train-labels-idx1-ubyte.gz", 29515,
         "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
        {"t10k-images-idx3-ubyte.gz", 4422102,
         "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
        {"t10k-labels-idx1-ubyte.gz", 5148,
         "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}},
       {}},
      {"cifar10",
       {"https://www.cs.toronto.edu/~kriz"},
       {{"cifar-10-binary.tar.gz", 170052171,
         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
       {"cifar-10-batches-bin/data_batch_1.bin", "cifar-10-batches-bin/data_batch_2.bin",
        "cifar-10-batches-bin/data_batch_3.bin", "cifar-10-batches-bin/data_batch_4.bin",
        "cifar-10-batches-bin/data_batch_5.bin", "cifar-10-batches-bin/test_batch.bin"}},
      {"cifar100",
       {"https://www.cs.toronto.edu/~kriz"},
       {{"cifar-100-binary.tar.gz", 168513733,
         "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}},
       {"cifar-100-binary/train.bin", "cifar-100-binary/test.bin"}},
  };
  return sets;
}

const RemoteSet& find_set(const std::string& name) {
  for (const RemoteSet& set : remote_sets()) {
    if (set.name == name) return set;
  }
  std::string known;
  for (const std::string& each : fetch_names()) known += (known.empty() ? "" : ", ") + each;
  detail::fail("fetch: unknown data set: got ", name, ", expected one of ", known);
}

std::string folder_of(const RemoteSet& set, const std::string& cache) {
  return concat(cache, "/", set.name);
}

// The files that readers want of the set, within its folder.
std::vector<std::string> final_files(const RemoteSet& set) {
  if (!set.members.empty()) return set.members;
  std::vector<std::string> names;
  for (const RemoteFile& file : set.files) names.push_back(file.name);
  return names;
}

bool is_whole(const RemoteSet& set, const std::string& folder) {
  const std::vector<std::string> names = final_files(set);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return access(concat(folder, "/", name).c_str(), R_OK) == 0;
  });
}

// Replaces the set's sums by those of the file `path`.
void read_sums(const std::string& path, RemoteSet& set) {
  std::map<std::string, std::string> sums;
  std::istringstream lines(read_file(path, 1 << 20));
  std::string sum, name;
  while (lines >> sum >> name) {
    const bool right =
        sum.size() == 64 && sum.find_first_not_of("0123456789abcdef") == std::string::npos;
    WICK_CHECK(right, path, ": not a SHA-256: got ", sum.substr(0, 80), ", expected 64 digits");
    sums[name.substr(name[0] == '*' ? 1 : 0)] = sum;
  }
  for (RemoteFile& file : set.files) {
    WICK_CHECK(sums.count(file.name) == 1, path, ": no sum of ", file.name);
    file.sha256 = sums[file.name];
    file.bytes = 0;
  }
}

void check_place(const std::string& url) {
  WICK_CHECK(url.starts_with("http://") || url.starts_with("https://"), "fetch: wrong place: got ",
             url, ", expected http://... or https://...");
}

void fetch_file(const RemoteSet& set, const RemoteFile& file, const std::string& folder,
                const FetchOptions& options) {
  std::string failures;
  for (const std::string& place : set.places) {
    Download wanted{.url = concat(place.substr(0, place.find_last_not_of('/') + 1), "/", file.name),
                    .path = concat(folder, "/", file.name),
                    .sha256 = file.sha256,
                    .bytes = file.bytes,
                    .stall_seconds = options.stall_seconds,
                    .progress = {}};
    if (options.progress) {
      wanted.progress = [&](uint64_t done) { options.progress(file.name, done, file.bytes); };
    }
    try {
      return download(wanted);
    } catch (const Error& error) {
      failures += concat(failures.empty() ? "" : "; ", error.what());
    }
  }
  detail::fail("fetch: ", set.name, ": ", failures, ". Without a network: put ", file.name,
               " (SHA-256 ", file.sha256, ") into ", folder,
               " and repeat, or name another place with --url");
}

}  // namespace

const std::vector<std::string>& fetch_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const RemoteSet& set : remote_sets()) all.push_back(set.name);
    return all;
  }();
  return names;
}

std::string cache_folder() {
  std::string folder = user_cache_folder();
  WICK_CHECK(!folder.empty(),
             "fetch: no cache folder: expected the variable XDG_CACHE_HOME or HOME to name one");
  return folder;
}

std::string fetch(const std::string& name, const FetchOptions& options) {
  RemoteSet set = find_set(name);
  if (!options.url.empty()) {
    check_place(options.url);
    set.places = {options.url};
  }
  if (!options.sums.empty()) read_sums(options.sums, set);
  const std::string folder =
      folder_of(set, options.cache_dir.empty() ? cache_folder() : options.cache_dir);
  if (!set.members.empty() && is_whole(set, folder)) return folder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  WICK_CHECK(!error, "cannot make ", folder, ": ", error.message());
  for (const RemoteFile& file : set.files) fetch_file(set, file, folder, options);
  if (!set.members.empty()) {
    const std::string archive = concat(folder, "/", set.files[0].name);
    unpack_tar(archive, folder, set.members);
    unlink(archive.c_str());  // what it held is there: it is not needed any more
  }
  return folder;
}

std::string fetched_folder(const std::string& name) {
  const std::vector<std::string>& names = fetch_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) return {};
  const std::string cache = user_cache_folder();
  if (cache.empty()) return {};
  const RemoteSet& set = find_set(name);
  const std::string folder = folder_of(set, cache);
  return is_whole(set, folder) ? folder : std::string();
}

}  // namespace wick::data
