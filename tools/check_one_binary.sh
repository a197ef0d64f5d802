#!/bin/bash
# Shows that a program built with CUDA (preset cuda) starts, and trains on the CPU, where there is
# no driver and where the toolkit is hidden, and says what is missing.
#   tools/check_one_binary.sh build/cuda/bin/wick
# Ends with 77 where it cannot hide folders. On a machine with a driver only the linking is checked.
set -euo pipefail
wick=$(readlink -f "${1:?which program?}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'check_one_binary: %s\n' "$*" >&2; exit 1; }

# Runs the program; its output goes to $work/out, and is shown if it does not end as `wanted`.
run() {
  local wanted=$1 code=0
  shift
  "$@" >"$work/out" 2>&1 </dev/null || code=$?
  [ "$code" = "$wanted" ] || { cat "$work/out"; fail "ended with $code, not $wanted: $*"; }
}
says() { grep -q -- "$1" "$work/out" || { cat "$work/out"; fail "does not say: $1"; }; }

# What every machine must show; `where` names it, the rest is how to run a command there.
check() {
  local where=$1
  shift
  run 0 "$@" "$wick" doctor
  says 'yes build        with CUDA'
  says 'no  device       no NVIDIA driver'
  says 'no  auto device  goes to cpu'
  run 0 "$@" "$wick" train --device auto --model mlp --max-steps 2 --eval-every 0 \
    --run-dir "$work/$where"
  says 'device    cpu (no NVIDIA driver'
  run 1 "$@" "$wick" train --device cuda --max-steps 1 --run-dir "$work/$where.cuda"
  says '--device cuda: no GPU to use: no NVIDIA driver'
  [ "$(wc -l <"$work/out")" = 1 ] || fail "more than one sentence: $(cat "$work/out")"
  echo "$where: starts, trains on the CPU, and says: $(cat "$work/out")"
}

needed=$(readelf -d "$wick" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if grep -E '^lib(cuda|cublas|cudnn|nccl|nvrtc)' <<<"$needed"; then
  fail 'the program is linked to the libraries above'
fi
echo "linked to: $(tr '\n' ' ' <<<"$needed")"
if [ -e /dev/nvidiactl ]; then
  echo 'there is a driver here: nothing more to show'
  exit 0
fi
check plain env
"$(dirname "$0")/../tests/nvtx/check_nvtx.py" "$wick"

# Without the toolkit: an empty folder lies over each folder that has its libraries.
unshare -rm true 2>/dev/null || { echo 'folders cannot be hidden here'; exit 77; }
folders=$( (ls -d /usr/local/cuda*/ || true; ldconfig -p |
  sed -n 's|.*=> \(.*\)/lib\(cublas\|cudnn\|cudart\|nccl\)[^/]*$|\1|p') 2>/dev/null |
  xargs -r readlink -f | sort -u)
mkdir "$work/empty"
cat >"$work/hide" <<END
#!/bin/bash
set -e
for folder in $(tr '\n' ' ' <<<"$folders"); do mount --bind "$work/empty" "\$folder"; done
exec "\$@"
END
chmod +x "$work/hide"
hidden=(unshare -rm env -u CUDA_HOME -u LD_LIBRARY_PATH "$work/hide")
check hidden "${hidden[@]}"
run 0 "${hidden[@]}" "$wick" doctor
for library in cuBLASLt cuDNN NCCL; do
  says "$(printf 'no  %-12s not found' "$library")"
done
