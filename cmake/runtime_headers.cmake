# What sources compiled at run time include (kernels/cuda/runtime_headers.h), as text.
# ${wick_runtime_headers}: a source file that holds it.
set(names kernels/special_math core/base/macros core/base/wraps core/base/half core/base/dtype)
file(GLOB functors CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     ${PROJECT_SOURCE_DIR}/kernels/elementwise_ops*.h)
list(TRANSFORM functors REPLACE "\\.h$" "")
list(APPEND names ${functors})
foreach(name chain convert device_code functor_call offsets quick_math real real_special
        vector_access)
  list(APPEND names kernels/cuda/common/${name})
endforeach()
if(WICK_GPU STREQUAL "sim")
  list(APPEND names kernels/sim/cuda_runtime kernels/sim/device_code kernels/sim/geometry)
endif()
set(definitions)
set(entries)
foreach(name ${names})
  string(MAKE_C_IDENTIFIER ${name} constant)
  wick_embed_file(${constant} ${PROJECT_SOURCE_DIR}/${name}.h)
  string(APPEND entries "{\"wick/${name}.h\", std::string(${constant})},\n")
endforeach()
set(wick_runtime_headers ${WICK_GENERATED}/runtime_headers.cpp)
file(CONFIGURE OUTPUT ${wick_runtime_headers} @ONLY CONTENT
     "#include \"wick/kernels/cuda/runtime_headers.h\"\n#include <string_view>\n
namespace wick::cuda {\nnamespace {\n@definitions@}\n
const std::vector<RuntimeHeader>& runtime_headers() {
  static const std::vector<RuntimeHeader> headers = {\n@entries@};
  return headers;\n}\n}\n")
