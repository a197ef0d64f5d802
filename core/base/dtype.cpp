#include "wick/core/base/dtype.h"

#include <ostream>

#include "wick/core/base/check.h"

namespace wick {

std::string_view to_string(Dtype dtype) {
  constexpr std::string_view kNames[] = {"float64", "float32", "float16", "bfloat16",
                                         "int64",   "int32",   "uint8",   "bool"};
  return kNames[static_cast<int>(dtype)];
}

std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << to_string(dtype); }

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_reduced(a) && is_reduced(b)) return Dtype::kFloat32;
  return a < b ? a : b;  // the enumerators run from the widest to the narrowest of each kind
}

void unsupported_dtype(Dtype dtype) {
  const char* op = detail::current_op();
  detail::fail(*op != 0 ? op : "kernel", ": dtype not supported here: got ", to_string(dtype),
               ", expected another");
}

}  // namespace wick
