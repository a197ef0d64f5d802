#include "wick/dist/data_parallel.h"

#include <algorithm>
#include <utility>

#include "wick/core/graph/trace.h"
#include "wick/dist/all_reduce.h"
#include "wick/dist/detail/reducer.h"
#include "wick/nn/norm.h"

namespace wick::dist {

namespace {

// Names, dtypes and shapes, a line each.
std::string signature_of(const nn::NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += concat(name, " ", tensor.dtype(), " ", tensor.shape(), "\n");
  }
  return text;
}

std::string line_at(const std::string& text, size_t place) {
  if (place >= text.size()) return "nothing";
  const size_t before = place == 0 ? std::string::npos : text.rfind('\n', place - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, text.find('\n', place) - begin);
}

Tensor bytes_tensor(const std::string& text, size_t size, Device device) {
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.resize(size);
  return tensor<uint8_t>(bytes).to(device);
}

}  // namespace

void check_same_modules(ProcessGroup& group, const nn::NamedTensors& tensors, Device device) {
  const std::string mine = signature_of(tensors);
  const auto ranks = static_cast<size_t>(group.size());
  const Tensor size = tensor<int64_t>({static_cast<int64_t>(mine.size())}).to(device);
  const Tensor sizes = empty({group.size(), 1}, kInt64, device);
  group.all_gather(size, sizes).wait();
  const std::vector<int64_t> all_sizes = sizes.to_vector<int64_t>();
  const auto most = static_cast<size_t>(*std::max_element(all_sizes.begin(), all_sizes.end()));
  const Tensor text = bytes_tensor(mine, most, device);
  const Tensor texts = empty({group.size(), static_cast<int64_t>(most)}, kUint8, device);
  group.all_gather(text, texts).wait();
  const std::vector<uint8_t> all = texts.to_vector<uint8_t>();
  const std::string first(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all_sizes[0]));
  for (size_t r = 1; r < ranks; ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * most);
    const std::string other(begin, begin + static_cast<std::ptrdiff_t>(all_sizes[r]));
    if (other == first) continue;
    const auto place = static_cast<size_t>(
        std::mismatch(first.begin(), first.end(), other.begin(), other.end()).first -
        first.begin());
    throw Error(concat("DistributedDataParallel: ranks have different modules: rank 0 has ",
                       line_at(first, place), ", rank ", r, " has ", line_at(other, place)));
  }
}

DistributedDataParallel::~DistributedDataParallel() = default;

std::shared_ptr<Reducer> DistributedDataParallel::make(std::shared_ptr<ProcessGroup> group,
                                                       const Options& options) {
  WICK_CHECK(group != nullptr, "DistributedDataParallel: expected a process group, got null");
  auto reducer = std::make_shared<Reducer>(*module_, std::move(group), options);
  reducer->add_hooks();
  return reducer;
}

Tensor DistributedDataParallel::forward(const Tensor& x) {
  return pass([&] { return module_(x); });
}

void DistributedDataParallel::begin_pass() { reducer_->before_forward(is_training()); }

void DistributedDataParallel::end_pass(const std::vector<Tensor>& outputs) {
  reducer_->after_forward(outputs);
}

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& model)
    : sync_(model.reducer_->sync, false),
      around_(model.reducer_->sync_around, graph::is_tracing() && model.reducer_->sync_around) {}

void synchronize_batch_norms(nn::Module& module, const std::shared_ptr<ProcessGroup>& group) {
  WICK_CHECK(group != nullptr, "synchronize_batch_norms: expected a process group, got null");
  module.apply([&](const std::string&, nn::Module& part) {
    if (auto* norm = dynamic_cast<nn::BatchNorm*>(&part)) {
      norm->sum_over_ranks = [group](const Tensor& x) { return all_reduce_sum(x, group); };
    }
  });
}

}  // namespace wick::dist
