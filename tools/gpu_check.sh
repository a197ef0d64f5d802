#!/bin/bash
# Everything that wants a GPU, in one go: build, tests on the device, compute-sanitizer on the
# kernels' tests, training steps beside PyTorch (the first of $PYTHON and python3 that has torch),
# kernels against the machine's limits. Tests run side by side, what is timed runs alone. What
# takes longer than its share is stopped and has failed. In a folder are then, as at most 8 files,
# verdicts and figures (JSON), tables and all logs.
#   tools/gpu_check.sh [--quick] [--preset cuda|sim] [--out FOLDER] [--only STEP,STEP]
# --quick ends within 530 s, and leaves out trainings, the study, two of the sanitizers, most rows
# of the benchmark and torch.compile. That is for a second call, with what the first one has built:
# --quick --only peers_compiled. With --preset sim the same steps run on the simulated GPU, without
# those that measure speed.
# Expected of --quick, with 16 cores and an H200: build 130 s, tests 90, peers 200, bench 50: 470.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=cuda
out=
quick=
only=
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --quick) quick=1; shift ;;
    --only) only=$2; shift 2 ;;
    *) echo "gpu_check: unknown argument: $1" >&2; exit 2 ;;
  esac
done
case $preset in cuda | sim) ;; *) echo "gpu_check: no such preset: $preset" >&2; exit 2 ;; esac
steps=(configure build doctor golden train ops nn optim core data dist)
if [ "$preset" = sim ]; then
  steps+=(simulator peer)
else
  steps+=(one_binary {memcheck,racecheck,synccheck}_{0,1,2,3} peers peers_compiled bench)
  steps+=(train_resnet study)
fi
for name in ${only//,/ }; do
  if [[ " ${steps[*]} " != *" $name "* ]]; then
    echo "gpu_check: no such step: $name, expected some of: ${steps[*]}" >&2
    exit 2
  fi
done
out=${out:-build/$preset/gpu_check}
logs=$PWD/build/$preset/gpu_check_logs
if [ -z "$only" ]; then rm -rf "$logs"; fi
mkdir -p "$out" "$logs"
out=$(cd "$out" && pwd)
bin=build/$preset/bin
cores=$(nproc)
deadline=
if [ -n "$quick" ] && [ "$preset" = cuda ]; then deadline=530; fi

wanted() {
  if [ -n "$only" ]; then
    [[ ",$only," == *",$1,"* ]]
    return
  fi
  case $1 in
    racecheck_* | synccheck_* | peers_compiled | train_resnet | study) [ -z "$quick" ] ;;
  esac
}

# record NAME VERDICT SECONDS
record() {
  printf '{"step": "%s", "verdict": "%s", "seconds": %d}\n' "$@" | tee -a "$out/steps.jsonl"
}

# step NAME MOST COMMAND...: runs it for at most so many seconds.
step() {
  local name=$1 most=$2 begin=$SECONDS log=$logs/$1.log
  shift 2
  wanted "$name" || return 0
  case $name in peers* | bench) log=$out/$name.txt ;; esac
  rm -f "$log"
  if [ -n "$deadline" ] && [ $((deadline - SECONDS)) -lt "$most" ]; then
    most=$((deadline - SECONDS))
  fi
  if [ "$most" -le 0 ]; then
    record "$name" 'no time left' 0
  elif timeout -k 5 "$most" "$@" >"$log" 2>&1; then
    record "$name" passed $((SECONDS - begin))
  else
    record "$name" failed $((SECONDS - begin))
    sed "s/^/$name: /" "$log" | tail -n 20
  fi
}

# A step beside others, of which each core has one.
beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n || true; done
  OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive step "$@" &
}

skip() { if wanted "$1"; then record "$1" "skipped: $2" 0; fi }

# Tables last, of which callers may see no more than the end. Ends with 1 if a step has not passed.
finish() {
  jobs -p | xargs -r kill 2>/dev/null || true
  for table in "$out"/*.txt; do if [ -f "$table" ]; then cat "$table"; fi; done
  tar -C "$logs" -czf "$out/logs.tar.gz" . || true  # what was stopped may be writing yet
  cat "$out/steps.jsonl"
  echo "results: $out"
  if [ ! -s "$out/steps.jsonl" ]; then echo "gpu_check: no step was run" >&2; exit 2; fi
  if grep -q -e '"failed"' -e '"no time left"' "$out/steps.jsonl"; then exit 1; fi
}
: >"$out/steps.jsonl"
trap finish EXIT

# The folder of the toolkit, and what it lacks of cuDNN, NCCL and cuBLAS from the wheels that
# PyTorch came with.
find_libraries() {
  local nvcc wheels part header library
  nvcc=$(command -v nvcc) || return 0
  export CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
  if [ -z "$python" ]; then return; fi
  wheels=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__path__[0]))')/nvidia
  while read -r part header library; do
    if ! { c++ -E -x c++ -I"$CUDA_HOME/include" -include "$header" /dev/null >/dev/null 2>&1 &&
      { [ -e "$CUDA_HOME/lib64/$library" ] || ldconfig -p | grep "$library" >/dev/null; }; } &&
      [ -d "$wheels/$part" ]; then
      echo "from $wheels/$part: $header, $library"
      export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$wheels/$part/include
      export CMAKE_INCLUDE_PATH=${CMAKE_INCLUDE_PATH:+$CMAKE_INCLUDE_PATH:}$wheels/$part/include
      export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels/$part/lib
    fi
  done <<'END'
cudnn cudnn_graph.h libcudnn.so.9
nccl nccl.h libnccl.so.2
cu13 cublasLt.h libcublasLt.so.13
END
}

# On the simulated GPU time is no figure, and two cores may have to do.
limit=120
python=
if [ "$preset" = sim ]; then
  limit=3600
else
  PATH=$PATH:/usr/local/cuda/bin
  for candidate in "${PYTHON:-}" python3; do
    if [ -n "$candidate" ] && "$candidate" -c 'import torch' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  find_libraries
fi

targets=(wick_cli wick_bench wick_peer)
targets+=(core_test data_test dist_test golden_test nn_test ops_test optim_test)
if [ "$preset" = sim ]; then targets+=(sim_test); elif wanted study; then targets+=(wick_study); fi
cache=()
if [ -f bundle/cache.cmake ]; then cache=(-C bundle/cache.cmake); fi  # from tools/gpu_bundle.sh
step configure $limit cmake "${cache[@]}" --preset "$preset" -DWICK_TESTS=ON -DWICK_BENCH=ON
step build $((limit * 3)) cmake --build --preset "$preset" --target "${targets[@]}"

# tests NAME FILTER: those of NAME_test that use a GPU.
tests() {
  beside "$1" $limit "$bin/$1_test" --gtest_filter="$2" --gtest_output="json:$logs/$1.json"
}
beside doctor $limit "$bin/wick" doctor
beside golden $limit "$bin/golden_test" --device cuda
beside train $limit "$bin/wick" train --device cuda --model lenet --max-steps 20 --eval-every 0 \
  --run-dir "$logs/run" --json
on_gpu='*other_device*:to_device*:*AGpu*:*OnEveryDevice:*KernelsName*:*MatMulOn*:AddLayerNorm*'
on_gpu+=':Attention.RowsWhose*:BatchNorm.IsAccurate*:CropImages*:CrossEntropy.SmoothsLarge*'
tests ops "$on_gpu"
tests nn 'Offload*:*Activation*:*CheckpointOn*:DetectAnomaly*:AutocastModels*:Lint*:Module*'
tests optim '*'
tests core 'Autocast*:CudaGraphTest*'
tests data 'Batch*:Prefetcher*:RandomStreams*:*Gpu*'
tests dist '*Gpu*:Nccl*:ProcessGroup*:AllReduceSum*'
if [ "$preset" = sim ]; then
  beside simulator $limit "$bin/sim_test" --gtest_output="json:$logs/sim.json"
  # The peers' program on a GPU, with nobody beside it.
  beside peer $limit sh -c "printf 'run 2\nmemory\nrequests\n' | '$bin/wick_peer' mlp_b64 2 cuda"
  wait
  exit
fi

beside one_binary $limit tools/check_one_binary.sh "$bin/wick"
for tool in memcheck racecheck synccheck; do
  if ! command -v compute-sanitizer >/dev/null; then
    skip "${tool}_0" 'no compute-sanitizer'
    continue
  fi
  for shard in 0 1 2 3; do
    beside "${tool}_$shard" $limit env GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard \
      compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$bin/ops_test" --gtest_filter='*other_device_float32'
  done
done
wait

peers=(bench/peers/compare.py --device cuda --python "$python" --wick "$bin/wick_peer")
rows=()
share=1000
if [ -n "$quick" ]; then
  peers+=(--seconds 1)
  share=230
  chosen='allocator|copy/(clone|to_bf|transp)|elementwise/(add|add_64_.*|gelu|mul)/|loss/cross'
  chosen+='|matmul/2048|norm/(layer|rms)_4096|optim/adamw|reduce/sum_[acr]|softmax/rows'
  rows=(--filter "^($chosen)")
else
  peers+=(--seconds 5)
fi
if [ -n "$python" ]; then
  step peers $share "${peers[@]}" --styles tuned,written --json "$out/peers.json"
  step peers_compiled 2000 "${peers[@]}" --styles compiled --json "$out/peers_compiled.json"
else
  skip peers 'no torch: name a Python that has one by PYTHON='
fi
step bench $((limit * 10)) "$bin/wick-bench" --device cuda --json "$out/bench.json" "${rows[@]}"
step train_resnet $limit "$bin/wick" train --device cuda --model resnet20 --epochs 5 \
  --run-dir "$logs/run_resnet" --json
step study $((limit * 10)) "$bin/wick-study" study --device cuda --seconds 3 \
  --run-dir "$logs/study" --bench "$out/bench.json" \
  use-the-gpu pinned-memory copy-ahead float16 bfloat16 conv-autotuning channels-last \
  fused-norm fused-optimizer fused-loss set-to-none read-loss-seldom activation-checkpointing
