#include "wick/dist/process_group.h"

// What collectives are called, for people.
namespace wick::dist {

const char* to_string(ReduceOp op) {
  static constexpr const char* kNames[] = {"sum", "average", "product", "min", "max"};
  return kNames[static_cast<int>(op)];
}

const char* to_string(Backend backend) {
  static constexpr const char* kNames[] = {"auto", "nccl", "gloo"};
  return kNames[static_cast<int>(backend)];
}

Backend parse_backend(const std::string& name) {
  for (const Backend b : {Backend::kAuto, Backend::kNccl, Backend::kGloo}) {
    if (name == to_string(b)) return b;
  }
  throw Error(concat("backend: unknown: got ", name, ", expected auto, nccl or gloo"));
}

const char* to_string(CollectiveKind kind) {
  static constexpr const char* kNames[] = {"all_reduce",     "broadcast", "all_gather",
                                           "reduce_scatter", "barrier",   "send",
                                           "recv",           "batch"};
  return kNames[static_cast<int>(kind)];
}

std::vector<Tensor> Collective::tensors() const {
  std::vector<Tensor> all;
  for (const Tensor& x : {tensor, result}) {
    if (x.defined()) all.push_back(x);
  }
  for (const Transfer& t : transfers) all.push_back(t.tensor);
  return all;
}

std::string Collective::description() const {
  std::string text = to_string(kind);
  if (!is_between_two()) text += concat(" #", sequence);
  if (kind == CollectiveKind::kBarrier) return text;
  text += " (";
  if (kind == CollectiveKind::kBatch) {
    for (const Transfer& t : transfers) {
      const Collective alone{.kind = t.kind, .transfers = {t}};
      text += concat(text.back() == '(' ? "" : ", ", alone.description());
    }
    return text + ")";
  }
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) {
    text += concat(to_string(op), ", ");
  } else if (kind == CollectiveKind::kBroadcast) {
    text += concat("from rank ", peer, ", ");
  } else if (is_between_two()) {
    text +=
        concat(kind == CollectiveKind::kSend ? "to rank " : "from rank ", transfers[0].peer, ", ");
  }
  const Tensor& x = is_between_two() ? transfers[0].tensor : tensor;
  return text + concat(x.dtype(), " ", x.shape(), ")");
}

}  // namespace wick::dist
