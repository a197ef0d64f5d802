#!/bin/bash
# Asks the installed cuDNN which engines it has for the graphs that kernels/cuda describes, and lets
# it compile them, without a GPU or a driver: for GPUs of a compute capability.
#   tools/check_cudnn_graphs.sh [90]        cuDNN and the toolkit are looked for in $CUDA_HOME
# Fails if there is none for one of them. What they compute is seen on a GPU only.
set -euo pipefail
export WICK_CAPABILITY=${1:-90}
root=$(cd "$(dirname "$0")/.." && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$root/build/cudnn_graphs
fail() { printf 'check_cudnn_graphs: %s\n' "$*" >&2; exit 2; }
first() { find -L "$@" 2>/dev/null | head -n 1 || true; }
libraries=$(dirname "$(first "$cuda" /usr/lib -name libcudnn.so.9)")
driver=$(first "$cuda" -path '*stubs/libcuda.so')
[ -n "$driver" ] && [ -e "$libraries/libcudnn.so.9" ] || fail "no cuDNN 9 or toolkit in $cuda"

mkdir -p "$work/include" "$work/lib"
ln -sfn "$root" "$work/include/wick"
# A driver that takes whatever is loaded, and can do nothing else.
nm -D --defined-only "$driver" | awk '$3 ~ /^cu/ { sub(/@.*/, "", $3); print $3 }' | sort -u |
  awk '{ loads = $0 ~ /^cu(LibraryLoadData|LibraryGetKernel|KernelGetFunction)$/
         if ($0 == "cuDriverGetVersion") print "int " $0 "(int* x) { *x = 13000; return 0; }"
         else if (loads) print "int " $0 "(void** x) { static int y; *x = &y; return 0; }"
         else if ($0 ~ /^cu(Func|Kernel)SetAttribute$/) print "int " $0 "(void) { return 0; }"
         else print "int " $0 "(void) { return 34; }" }' >"$work/driver.c"
"${CC:-cc}" -w -shared -fPIC -o "$work/lib/libcuda.so.1" "$work/driver.c"
flags=(-std=c++20 -O1 -DWICK_HAS_CUDA=1 -I"$work/include" -isystem "$cuda/include")
"${CXX:-c++}" "${flags[@]}" -shared -fPIC -o "$work/lib/libcudnn.so.9" \
  "$root/tools/cudnn_graphs/cudnn.cpp" -ldl
"${CXX:-c++}" "${flags[@]}" -o "$work/check" "$root/tools/cudnn_graphs/check.cpp" \
  "$root"/kernels/cuda/cudnn*.cpp \
  "$root"/core/base/{check,deterministic,device,dtype,detail/dynamic_library,shape,tf32}.cpp -ldl

WICK_CUDNN=$libraries/libcudnn.so.9 LD_LIBRARY_PATH=$work/lib:$libraries "$work/check"
