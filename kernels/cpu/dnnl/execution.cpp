#include "wick/kernels/cpu/dnnl/execution.h"

#include <string_view>

#include "wick/core/base/detail/per_thread.h"
#include "wick/core/base/parallel.h"
#include "wick/kernels/library_version.h"

namespace wick::cpu {

namespace {

struct Stream {
  dnnl::stream stream = dnnl::stream(dnnl_engine());
};
dnnl::stream& dnnl_stream() { return per_thread<Stream>().stream; }

}  // namespace

dnnl::engine& dnnl_engine() {
  static auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);  // until the program's end
  return engine;
}

DataType dnnl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32: return DataType::f32;
    case Dtype::kBFloat16: return DataType::bf16;
    default: unsupported_dtype(dtype);
  }
}

bool dnnl_has(dnnl::cpu_isa isa) {
  const auto wanted = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

bool dnnl_has_bfloat16() {
  static const bool has = dnnl_has(dnnl::cpu_isa::avx512_core);
  return has;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

bool is_reference(const dnnl::primitive_desc_base& primitive) {
  return std::string_view(primitive.impl_info_str()).find("ref") != std::string_view::npos;
}

Execution::Execution(dnnl::primitive primitive, const MemoryDesc& scratchpad)
    : primitive_(std::move(primitive)), scratchpad_(scratchpad, dnnl_engine(), nullptr) {
  memories_.emplace(DNNL_ARG_SCRATCHPAD, scratchpad_);
}

void Execution::add(int arg, const MemoryDesc& user, const MemoryDesc& wanted, bool is_output) {
  Argument argument;
  argument.is_output = is_output;
  argument.user = dnnl::memory(user, dnnl_engine(), nullptr);
  argument.wanted = argument.user;
  if (user != wanted) {
    argument.wanted = dnnl::memory(wanted, dnnl_engine(), nullptr);
    argument.reorder = is_output ? dnnl::reorder(argument.wanted, argument.user)
                                 : dnnl::reorder(argument.user, argument.wanted);
    argument.reordered = true;
  }
  memories_.emplace(arg, argument.wanted);
  arguments_.push_back(std::move(argument));
}

void Execution::input(int arg, const MemoryDesc& user, const MemoryDesc& wanted) {
  add(arg, user, wanted, false);
}

void Execution::output(int arg, const MemoryDesc& user, const MemoryDesc& wanted) {
  add(arg, user, wanted, true);
}

void Execution::run(std::initializer_list<const void*> data, Workspace& workspace) {
  if (num_threads() > 1) detail::begin_team();
  set_library_threads();
  dnnl::stream& stream = dnnl_stream();
  blocks_.clear();  // an error may have left some
  const auto scratch = [&](const dnnl::memory& memory) {
    blocks_.push_back(workspace.allocate(memory.get_desc().get_size()));
    return blocks_.back();
  };
  scratchpad_.set_data_handle(scratch(scratchpad_), stream);
  const void* const* pointer = data.begin();
  for (Argument& argument : arguments_) {
    argument.user.set_data_handle(const_cast<void*>(*pointer++), stream);
    if (!argument.reordered) continue;
    argument.wanted.set_data_handle(scratch(argument.wanted), stream);
    if (!argument.is_output) argument.reorder.execute(stream, argument.user, argument.wanted);
  }
  primitive_.execute(stream, memories_);
  for (Argument& argument : arguments_) {
    if (!argument.reordered || !argument.is_output) continue;
    argument.reorder.execute(stream, argument.wanted, argument.user);
  }
  for (; !blocks_.empty(); blocks_.pop_back()) workspace.release(blocks_.back());
}

size_t PrimitiveKey::hash() const {
  uint64_t h = static_cast<uint64_t>(size_);
  for (int i = 0; i < size_; ++i) {
    h ^= static_cast<uint64_t>(values_[static_cast<size_t>(i)]);
    h *= 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

}  // namespace wick::cpu
