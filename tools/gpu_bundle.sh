#!/bin/bash
# Collects what the build needs beside nvcc, a C++ compiler, CMake, ninja and Python, for machines
# with a GPU that have no packages and maybe another distribution: bundle/, and bundle.tar.xz of it.
#   tools/gpu_bundle.sh                      on Debian 12 with the packages of ./wick test
#   tools/gpu_bundle.sh --rehearse [PRESET]  then builds from the archive where there are none
#   tools/gpu_bundle.sh --programs [PRESET]  builds the programs of tools/gpu_check.sh here instead,
#                                            for sm_90 (cuda) or the simulated GPU (sim), and packs
#                                            them with the libraries that they load
# Where $CASES names a folder of PyTorch's samples (tests/golden/make_opinfo_cases.py), those of up
# to 600 KB an op are packed too.
# There: tools/gpu_check.sh unpacks it in the source tree, and uses what it finds.
set -euo pipefail
cd "$(dirname "$0")/.."
most=$((50 << 20))  # bytes, packed
packages='libcli11-dev libeigen3-dev libfmt-dev libjpeg62-turbo-dev libpng-dev
  libssl-dev nlohmann-json3-dev zlib1g-dev libgtest-dev libjs-chart.js'
lib=/usr/lib/x86_64-linux-gnu
fail() { printf 'gpu_bundle: %s\n' "$*" >&2; exit 1; }

collect() {
  rm -rf bundle
  mkdir -p bundle/include bundle/lib
  local package file header
  for package in $packages; do
    dpkg-query -W "$package" >/dev/null || fail "$package is not installed"
    while read -r file; do
      [ -f "$file" ] || continue
      header=${file#/usr/include/}
      case $file in
        /usr/include/*) put "$file" "include/${header#x86_64-linux-gnu/}" ;;
        $lib/cmake/* | /usr/share/*/cmake/*) put "$file" "${file#/usr/}" ;;
        /usr/share/javascript/chart.js/chart.min.js) put "$file" "${file#/usr/}" ;;
        /usr/share/cmake/*) put "$file" "${file#/usr/}" ;;
      esac
    done < <(dpkg -L "$package")
  done
  # Archives where there are any: they run on every distribution.
  for file in libcrypto libgtest libgtest_main libjpeg libpng16 libz; do
    put "$lib/$file.a" "lib/x86_64-linux-gnu/$file.a"
  done
  put_library libfmt.so
  write_cache >bundle/cache.cmake
}

put() {
  mkdir -p "bundle/$(dirname "$2")"
  cp -L "$1" "bundle/$2"
}

# A shared library under its own name and as what programs load.
put_library() {
  local file real soname
  file=$(readlink -f "$lib/$1")
  real=$(basename "$file")
  soname=$(readelf -d "$file" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  put "$file" "lib/x86_64-linux-gnu/$real"
  strip --strip-unneeded "bundle/lib/x86_64-linux-gnu/$real"
  for name in "$soname" "$(basename "$1")"; do
    [ "$name" = "$real" ] || ln -sf "$real" "bundle/lib/x86_64-linux-gnu/$name"
  done
}

# Where CMake finds all that, whatever the distribution's own folders are.
write_cache() {
  cat <<'END'
set(bundle ${CMAKE_CURRENT_LIST_DIR})
set(lib ${bundle}/lib/x86_64-linux-gnu)
function(use name value)
  set(${name} ${value} CACHE STRING "from the bundle" FORCE)
endfunction()
use(CLI11_DIR ${bundle}/share/cmake/CLI11)
use(Eigen3_DIR ${bundle}/share/eigen3/cmake)
use(GTest_DIR ${lib}/cmake/GTest)
use(benchmark_DIR ${lib}/cmake/benchmark)
use(fmt_DIR ${lib}/cmake/fmt)
use(nlohmann_json_DIR ${bundle}/share/cmake/nlohmann_json)
use(WICK_CHART_JS ${bundle}/share/javascript/chart.js/chart.min.js)
use(JPEG_INCLUDE_DIR ${bundle}/include)
use(JPEG_LIBRARY_RELEASE ${lib}/libjpeg.a)
use(OPENSSL_INCLUDE_DIR ${bundle}/include)
use(OPENSSL_CRYPTO_LIBRARY ${lib}/libcrypto.a)
use(PNG_PNG_INCLUDE_DIR ${bundle}/include)
use(PNG_LIBRARY_RELEASE ${lib}/libpng16.a)
use(ZLIB_INCLUDE_DIR ${bundle}/include)
use(ZLIB_LIBRARY_RELEASE ${lib}/libz.a)
use(CMAKE_CXX_STANDARD_LIBRARIES "-ldl -lpthread")  # libcrypto.a wants them
# So that libraries of the bundle find each other, too.
use(CMAKE_EXE_LINKER_FLAGS "-Wl,--disable-new-dtags,-rpath,${lib}")
END
}

# The programs, and what they load but for the C and C++ libraries, which every machine has.
collect_programs() {
  local preset=$1 program library
  local targets=(wick_cli wick_bench wick_peer core_test data_test dist_test golden_test)
  targets+=(nn_test core_ops_test core_profile_test optim_test)
  local given=(-DWICK_TESTS=ON -DWICK_BENCH=ON)
  if [ "$preset" = sim ]; then
    targets+=(kernels_sim_test)
  else
    given+=(-DCMAKE_CUDA_ARCHITECTURES=90)
  fi
  cmake --preset "$preset" "${given[@]}"
  cmake --build --preset "$preset" --target "${targets[@]}"
  mkdir -p bundle/bin
  for program in wick wick-bench wick_peer \
    {core,data,dist,golden,nn,core_ops,core_profile,optim,kernels_sim}_test; do
    [ -f "build/$preset/bin/$program" ] || continue
    put "build/$preset/bin/$program" "bin/$program"
    strip "bundle/bin/$program"
    while read -r library; do
      put "$library" "lib/x86_64-linux-gnu/$(basename "$library")"
    done < <(ldd "build/$preset/bin/$program" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' |
      grep -v -E '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so')
  done
  pwd -P >bundle/root
  echo "$preset" >bundle/preset
}

# Eight parts, which run side by side.
collect_cases() {
  local file part=0
  for file in "$CASES"/*.safetensors; do
    if [ "$(stat -c %s "$file")" -gt 600000 ]; then continue; fi
    part=$(((part + 1) % 8))
    mkdir -p "bundle/cases/$part"
    cp "$file" "${file%.safetensors}.json" "bundle/cases/$part"
  done
}

# Programs share most of what they are made of: within so large a window xz stores it once.
pack() {
  tar -C . -cf - bundle | xz -T1 --lzma2=preset=6,dict=192MiB >bundle.tar.xz
  local bytes
  bytes=$(stat -c %s bundle.tar.xz)
  echo "bundle.tar.xz: $((bytes / 1048576)) MiB"
  [ "$bytes" -le "$most" ] || fail "more than $((most >> 20)) MiB"
}

# Builds from the archive in a chroot: this machine without the files of those packages.
rehearse() {
  local preset=$1 work
  work=$(mktemp -d)
  mkdir "$work/src"
  git archive HEAD | tar -C "$work/src" -xf -
  tar -C "$work/src" -xf bundle.tar.xz
  export work preset packages
  unshare -m bash -euc '
    mkdir "$work/over" "$work/root"
    mount -t tmpfs tmpfs "$work/over"
    mkdir "$work/over/up" "$work/over/work"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$work/over/up,workdir=$work/over/work" \
      "$work/root"
    for package in $packages libfmt9; do
      dpkg -L "$package" 2>/dev/null | while read -r file; do
        if [ -f "$file" ] || [ -L "$file" ]; then rm -f "$work/root$file"; fi
      done
    done
    mkdir -p "$work/root/wick"
    mount --bind "$work/src" "$work/root/wick"
    for folder in /dev /proc /sys; do mount --rbind "$folder" "$work/root$folder"; done
    if [ -d /usr/local/cuda ]; then mount --bind /usr/local "$work/root/usr/local"; fi
    chroot "$work/root" /bin/bash -euc "
      cd /wick
      ! [ -e /usr/include/fmt ] && ! [ -e /usr/include/png.h ]
      cmake -C bundle/cache.cmake --preset $preset
      cmake --build --preset $preset --target wick_cli wick_bench wick_peer core_ops_test -- -j2
      build/$preset/bin/wick train --device cpu --model mlp --max-steps 2 --eval-every 0 --json
      ldd build/$preset/bin/wick | grep -c bundle"
  '
  umount -R "$work/root" "$work/over" 2>/dev/null || true
  rm -rf "$work"
  echo "rehearsed: $preset"
}

collect
if [ "${1-}" = --programs ]; then collect_programs "${2:-cuda}"; fi
if [ -n "${CASES-}" ]; then collect_cases; fi
pack
if [ "${1-}" = --rehearse ]; then rehearse "${2:-cuda}"; fi
