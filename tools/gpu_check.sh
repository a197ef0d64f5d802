#!/bin/bash
# Everything that wants a GPU, in one go: build, tests on the device, compute-sanitizer on the
# kernels' tests, a training, kernel times beside PyTorch. Results are JSON files in a folder.
#   tools/gpu_check.sh [--preset cuda|sim] [--out FOLDER]
# With --preset sim the same steps run on the simulated GPU, without those that measure speed.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=cuda
out=
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "gpu_check: unknown argument: $1" >&2; exit 2 ;;
  esac
done
case $preset in cuda | sim) ;; *) echo "gpu_check: no such preset: $preset" >&2; exit 2 ;; esac
out=${out:-build/$preset/gpu_check}
mkdir -p "$out"
out=$(cd "$out" && pwd)
bin=build/$preset/bin
failed=0

# Runs a step, keeps its output in $out/NAME.log and its verdict and seconds in $out/steps.jsonl.
step() {
  local name=$1 begin=$SECONDS verdict=passed
  shift
  printf '=== %s\n' "$name"
  "$@" >"$out/$name.log" 2>&1 || { verdict=failed; failed=1; tail -n 20 "$out/$name.log"; }
  printf '{"step": "%s", "verdict": "%s", "seconds": %d}\n' \
    "$name" "$verdict" $((SECONDS - begin)) | tee -a "$out/steps.jsonl"
}
: >"$out/steps.jsonl"

targets=(wick_cli wick_bench golden_test ops_test)
if [ "$preset" = sim ]; then targets+=(sim_test); else targets+=(wick_study); fi
cache=()
if [ -f bundle/cache.cmake ]; then cache=(-C bundle/cache.cmake); fi  # from tools/gpu_bundle.sh

step configure cmake "${cache[@]}" --preset "$preset" -DWICK_TESTS=ON -DWICK_BENCH=ON
step build cmake --build --preset "$preset" --target "${targets[@]}"
step doctor "$bin/wick" doctor
step golden "$bin/golden_test" --device cuda
step ops "$bin/ops_test" --gtest_filter='*other_device*' --gtest_output="json:$out/ops.json"
step train "$bin/wick" train --device cuda --model lenet --max-steps 20 --eval-every 0 \
  --run-dir "$out/run" --json
if [ "$preset" = sim ]; then
  step simulator "$bin/sim_test" --gtest_output="json:$out/sim.json"
else
  step one_binary tools/check_one_binary.sh "$bin/wick"
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
      step "sanitizer_$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 \
        "$bin/ops_test" --gtest_filter='*other_device_float32'
    done
  fi
  step bench "$bin/wick-bench" --device cuda --json "$out/bench.json"
  step train_resnet "$bin/wick" train --device cuda --model resnet20 --epochs 5 \
    --run-dir "$out/run_resnet" --json
  step study "$bin/wick-study" study --device cuda --seconds 3 --run-dir "$out/study" \
    --bench "$out/bench.json" \
    use-the-gpu pinned-memory copy-ahead float16 bfloat16 conv-autotuning channels-last fused-norm \
    fused-optimizer fused-loss set-to-none read-loss-seldom activation-checkpointing
fi
echo "results: $out"
exit $failed
