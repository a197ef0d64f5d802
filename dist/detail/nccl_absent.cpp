// In place of nccl.cpp in builds without CUDA, or without NCCL's header.
#include "wick/dist/detail/nccl.h"

namespace wick::dist {

namespace {

[[noreturn]] void tell_absence() {
#ifdef WICK_HAS_CUDA
  throw Error("NCCL: this program was built without NCCL's header nccl.h");
#else
  throw Error("NCCL: this program was built without CUDA (WICK_GPU=off)");
#endif
}

}  // namespace

std::string nccl_version() { tell_absence(); }
std::string unique_name(Device) { tell_absence(); }
std::string new_nccl_id() { tell_absence(); }

std::unique_ptr<NcclGroup> make_nccl_group(Control&, int, int, Device, const std::string&,
                                           std::chrono::milliseconds, NcclEvents) {
  tell_absence();
}

}  // namespace wick::dist
