#include "wick/core/profile/detail/record_op.h"

#include "wick/core/anomaly.h"
#include "wick/core/profile/detail/session.h"
#include "wick/core/profile/memory_use.h"

namespace wick::profile {

namespace {

int64_t bytes_of(std::span<const Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& x : tensors) {
    if (x.defined()) bytes += x.numel() * size_of(x.dtype());
  }
  return bytes;
}

std::string shapes_of(std::span<const Tensor> tensors) {
  std::string text = "[";
  for (const Tensor& x : tensors) {
    text += text.size() > 1 ? ", [" : "[";
    for (int i = 0; x.defined() && i < x.dim(); ++i) {
      if (i > 0) text += ", ";
      text += std::to_string(x.size(i));
    }
    text += "]";
  }
  return text + "]";
}

// A leaf's number would be the same for all.
uint64_t number_of(const Node& node) { return node.next().empty() ? 0 : node.sequence() + 1; }

}  // namespace

void note_op(Span& span, const OpType& type, const void* op, std::span<const Tensor> inputs,
             std::span<const Tensor> outputs, const Node* node) {
  const uint32_t wants = wanted();
  Event& event = span.event();
  event.bytes = bytes_of(inputs) + (type.info.mutates == 0 ? bytes_of(outputs) : 0);
  if (type.info.view) event.bytes = 0;  // nothing is read
  for (const Tensor& output : outputs) {
    if (output.defined()) event.device = output.device();
  }
  if (node != nullptr) event.sequence = number_of(*node);
  if ((wants & kWantsShapes) != 0) event.shapes = kept_text(shapes_of(inputs));
  if ((wants & kWantsModules) != 0) event.module = kept_text(anomaly::module_path());
  if ((wants & kWantsFlops) != 0 && type.flops != nullptr) {
    event.flops = type.flops(op, inputs, outputs[0]);
  }
}

void note_backward(Span& span, const Node& node) {
  const Node::Origin origin = node.origin();
  Event& event = span.event();
  ThreadLog* log = current_log();
  if (log != nullptr) event.name = log->backward_name(origin.op);
  if (!origin.module.empty()) event.module = kept_text(origin.module);
  event.sequence = number_of(node);
  event.device = node.stream().device;
  if ((wanted() & kEmitsNvtx) == 0) return;
  const std::string name = name_of_backward(origin.op);
  span.emit(origin.module.empty() ? name : concat(name, " (", origin.module, ")"));
}

void label_memory(const Tensor& tensor, MemoryUse use) {
  if ((wanted() & kWantsMemory) == 0 || !tensor.defined() || tensor.numel() == 0) return;
  Event event;
  event.kind = EventKind::kMemoryLabel;
  event.use = use;
  event.device = tensor.device();
  event.bytes = static_cast<int64_t>(tensor.impl()->storage->bytes());
  event.address = reinterpret_cast<uintptr_t>(tensor.impl()->storage->data());
  record_moment(event);
}

}  // namespace wick::profile
