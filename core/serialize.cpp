#include "wick/core/serialize.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "wick/core/detail/safetensors_header.h"
#include "wick/core/file.h"

namespace wick {

namespace {

using Item = const TensorMap::value_type*;

// Wide elements first, so that every tensor starts at a multiple of its element's size.
std::vector<Item> file_order(const std::string& path, const TensorMap& tensors) {
  std::vector<Item> items;
  for (const auto& item : tensors) {
    WICK_CHECK(item.second.defined(), "safetensors: ", path, ": tensor '", item.first,
               "' is undefined");
    WICK_CHECK(item.first != "__metadata__", "safetensors: ", path,
               ": a tensor cannot be named __metadata__");
    items.push_back(&item);
  }
  std::stable_sort(items.begin(), items.end(), [](Item a, Item b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });
  return items;
}

std::string header_text(const std::string& path, const std::vector<Item>& items,
                        const TextMap& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const Item item : items) {
    const Tensor& tensor = item->second;
    const int64_t end = offset + tensor.numel() * size_of(tensor.dtype());
    nlohmann::ordered_json& entry = header[item->first];
    entry["dtype"] = safetensors_dtype_name(tensor.dtype());
    entry["shape"] = std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end());
    entry["data_offsets"] = {offset, end};
    offset = end;
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const nlohmann::json::exception&) {
    throw Error("safetensors: " + path + ": a name or a metadata text is not UTF-8");
  }
}

void check_bools(const std::string& path, const std::string& name, const Tensor& tensor) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.raw_data());
  const auto* end = bytes + tensor.numel();
  const auto* bad = std::find_if(bytes, end, [](unsigned char byte) { return byte > 1; });
  WICK_CHECK(bad == end, "safetensors: ", path, ": tensor '", name, "': element ", bad - bytes,
             " of a BOOL tensor is ", static_cast<int>(*bad), ", expected 0 or 1");
}

}  // namespace

void save_safetensors(const std::string& path, const TensorMap& tensors, const TextMap& metadata) {
  const std::vector<Item> items = file_order(path, tensors);
  const std::string header = header_text(path, items, metadata);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  AtomicFile file(path);
  file.write(length, sizeof length);
  file.write(header);
  for (const Item item : items) {
    const Tensor host = item->second.detach().cpu().contiguous();
    file.write(host.raw_data(), static_cast<size_t>(host.numel() * size_of(host.dtype())));
  }
  file.commit();
}

TensorMap load_safetensors(const std::string& path, TextMap* metadata) {
  const InputFile file(path);
  SafetensorsHeader header = read_safetensors_header(file);
  TensorMap tensors;
  for (const auto& [name, entry] : header.entries) {
    const Tensor tensor = empty(entry.shape, entry.dtype);
    if (entry.end > entry.begin) {
      file.read_at(header.data_start + entry.begin, tensor.raw_data(), entry.end - entry.begin);
    }
    if (entry.dtype == kBool) check_bools(path, name, tensor);
    tensors.emplace(name, tensor);
  }
  if (metadata != nullptr) *metadata = std::move(header.metadata);
  return tensors;
}

}  // namespace wick
