#!/bin/bash
# Everything that wants a GPU, in one go: build, tests on the device, compute-sanitizer on the
# kernels' tests, kernels against the machine's limits, training steps beside PyTorch (the first
# of $PYTHON and python3 that has torch). Results are JSON files in a folder. What takes longer than
# its share is stopped and has failed. With --quick all ends within 9 minutes.
#   tools/gpu_check.sh [--quick] [--preset cuda|sim] [--out FOLDER]
# --quick leaves out trainings, the study, two of the sanitizers and torch.compile. With --preset
# sim the same steps run on the simulated GPU, without those that measure speed.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=cuda
out=
quick=
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --quick) quick=1; shift ;;
    *) echo "gpu_check: unknown argument: $1" >&2; exit 2 ;;
  esac
done
case $preset in cuda | sim) ;; *) echo "gpu_check: no such preset: $preset" >&2; exit 2 ;; esac
out=${out:-build/$preset/gpu_check}
mkdir -p "$out"
out=$(cd "$out" && pwd)
bin=build/$preset/bin
failed=0
deadline=
if [ -n "$quick" ] && [ "$preset" = cuda ]; then deadline=530; fi

# Runs a step of at most so many seconds, keeps its output in $out/NAME.log and its verdict and
# seconds in $out/steps.jsonl.
step() {
  local name=$1 most=$2 begin=$SECONDS verdict=passed
  shift 2
  printf '=== %s\n' "$name"
  rm -f "$out/$name.log"
  if [ -n "$deadline" ] && [ $((deadline - SECONDS)) -lt "$most" ]; then
    most=$((deadline - SECONDS))
  fi
  if [ "$most" -le 0 ]; then
    verdict='no time left' failed=1
  else
    timeout -k 5 "$most" "$@" >"$out/$name.log" 2>&1 ||
      { verdict=failed; failed=1; tail -n 20 "$out/$name.log"; }
  fi
  printf '{"step": "%s", "verdict": "%s", "seconds": %d}\n' \
    "$name" "$verdict" $((SECONDS - begin)) | tee -a "$out/steps.jsonl"
}
: >"$out/steps.jsonl"

# On the simulated GPU time is no figure, and two cores may have to do.
limit=120
if [ "$preset" = sim ]; then limit=3600; fi

targets=(wick_cli wick_bench wick_peer golden_test nn_test ops_test)
if [ "$preset" = sim ]; then targets+=(sim_test); else targets+=(wick_study); fi
cache=()
if [ -f bundle/cache.cmake ]; then cache=(-C bundle/cache.cmake); fi  # from tools/gpu_bundle.sh

step configure $limit cmake "${cache[@]}" --preset "$preset" -DWICK_TESTS=ON -DWICK_BENCH=ON
step build $((limit * 3)) cmake --build --preset "$preset" --target "${targets[@]}"
step doctor $limit "$bin/wick" doctor
step golden $limit "$bin/golden_test" --device cuda
step ops $limit "$bin/ops_test" --gtest_filter='*other_device*' \
  --gtest_output="json:$out/ops.json"
step offload $limit "$bin/nn_test" --gtest_filter='Offload*'
step train $limit "$bin/wick" train --device cuda --model lenet --max-steps 20 --eval-every 0 \
  --run-dir "$out/run" --json
if [ "$preset" = sim ]; then
  step simulator $limit "$bin/sim_test" --gtest_output="json:$out/sim.json"
  # The peers' program on a GPU, with nobody beside it.
  step peer $limit sh -c "printf 'run 2\nmemory\n' | '$bin/wick_peer' mlp_b64 2 cuda"
else
  step one_binary $limit tools/check_one_binary.sh "$bin/wick"
  if command -v compute-sanitizer >/dev/null; then
    tools=(memcheck)
    if [ -z "$quick" ]; then tools+=(racecheck synccheck); fi
    for tool in "${tools[@]}"; do
      step "sanitizer_$tool" $limit compute-sanitizer --tool "$tool" --error-exitcode 1 \
        "$bin/ops_test" --gtest_filter='*other_device_float32'
    done
  fi
  step bench $limit "$bin/wick-bench" --device cuda --json "$out/bench.json"
  python=
  for candidate in "${PYTHON:-}" python3; do
    if [ -n "$candidate" ] && "$candidate" -c 'import torch' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  peers=(bench/peers/compare.py --device cuda --python "$python" --wick "$bin/wick_peer"
    --seconds 2)
  if [ -n "$python" ]; then
    step peers $((limit * 2)) "${peers[@]}" --styles written,tuned --json "$out/peers.json"
    cat "$out/peers.log" || true
    if [ -z "$quick" ]; then  # compiling takes long
      step peers_compiled $((limit * 4)) "${peers[@]}" --styles compiled \
        --json "$out/peers_compiled.json"
      cat "$out/peers_compiled.log" || true
    fi
  else
    echo "no torch: no peer to compare with (name one by PYTHON=)"
  fi
  if [ -z "$quick" ]; then
    step train_resnet $limit "$bin/wick" train --device cuda --model resnet20 --epochs 5 \
      --run-dir "$out/run_resnet" --json
    step study $limit "$bin/wick-study" study --device cuda --seconds 3 --run-dir "$out/study" \
      --bench "$out/bench.json" \
      use-the-gpu pinned-memory copy-ahead float16 bfloat16 conv-autotuning channels-last \
      fused-norm fused-optimizer fused-loss set-to-none read-loss-seldom activation-checkpointing
  fi
fi
echo "results: $out"
exit $failed
