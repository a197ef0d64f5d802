#!/bin/bash
# Everything that wants a GPU, in one go, the most telling first: tests on the device, figures
# beside PyTorch (the first of $PYTHON and python3 that has torch), kernels against the machine's
# limits, compute-sanitizer on the kernels' tests, trainings. The programs are those of bundle/ if
# tools/gpu_bundle.sh --programs made it and they start here, else they are built. Tests run side
# by side, what is timed runs alone. What takes longer than its share is stopped and has failed. In
# a folder are, from each step's end on and as at most 8 files, verdicts and figures (JSON), tables
# and all logs.
#   tools/gpu_check.sh [--quick] [--preset cuda|sim] [--out FOLDER] [--only STEP,STEP]
# --quick ends within 530 s, and leaves out trainings, the study, two of the sanitizers, most rows
# of the benchmark and torch.compile, which takes a call of its own: --quick --only peers_compiled.
# Each call builds, or takes from bundle/, what it needs: none relies on an earlier one. With
# --preset sim the same steps run on the simulated GPU, without those that measure speed.
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
steps=(doctor golden train profile core_profile core_ops nn optim core data dist)
steps+=(samples_{0,1,2,3,4,5,6,7})
if [ "$preset" = sim ]; then
  steps+=(simulator peer)
else
  steps+=(one_binary peers_rows plans peers_resnet peers_article peers_written bench)
  steps+=({memcheck,racecheck,synccheck}_{0,1,2,3} peers_compiled train_resnet study)
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
bin=
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

# record NAME VERDICT SECONDS: at once, with the logs so far, for a caller that may be stopped.
record() {
  printf '{"step": "%s", "verdict": "%s", "seconds": %d}\n' "$@" | tee -a "$out/steps.jsonl"
  {
    flock 9
    save_logs
  } 9>"$logs.lock"
}

save_logs() {
  tar -C "$logs" -czf "$logs.part" . || true  # what runs beside may be writing
  mv "$logs.part" "$out/logs.tar.gz"
}

# step NAME MOST COMMAND...: runs it for at most so many seconds.
step() {
  local name=$1 most=$2 begin=$SECONDS log=$logs/$1.log why=
  shift 2
  if ! is_building "$name"; then wanted "$name" || return 0; fi
  rm -f "$log"
  if [ -n "$deadline" ] && [ $((deadline - SECONDS)) -lt "$most" ]; then
    most=$((deadline - SECONDS))
  fi
  if [ "$most" -le 0 ]; then
    record "$name" 'no time left' 0
  elif timeout -k 5 "$most" "$@" >"$log" 2>&1; then
    keep_table "$name" "$log"
    record "$name" passed $((SECONDS - begin))
  elif why=$(refusal "$name" "$log"); then
    record "$name" "skipped: $why" $((SECONDS - begin))
  else
    keep_table "$name" "$log"
    record "$name" failed $((SECONDS - begin))
    sed "s/^/$name: /" "$log" | tail -n 20
  fi
}

is_building() { case $1 in configure | build) ;; *) false ;; esac; }

# What callers want to read, the last first to be cut off.
keep_table() {
  case $1 in
    profile | peers* | bench) { echo "== $1"; cat "$2"; } >>"$out/tables.txt" ;;
  esac
}

# Why compute-sanitizer would not work here at all: no verdict on the kernels.
refusal() {
  case $1 in memcheck_* | racecheck_* | synccheck_*) ;; *) return 1 ;; esac
  if grep -q 'ERROR SUMMARY: [1-9]' "$2" &&
    ! grep -qi -e 'device not supported' -e 'permission' "$2"; then
    return 1
  fi
  grep -i -m 1 -o -e 'device not supported' -e 'driver .*not supported' -e '.*permission.*' \
    -e 'failed to initialize.*' -e 'LibraryNotLoaded' -e 'unable to .*debugger.*' "$2" |
    tr -d '"\\' | sed 's/^[= ]*//; s/^/compute-sanitizer: /'
}

# A step beside others, of which each core has one.
beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n || true; done
  OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive step "$@" &
}

# record_steps WICK FOLDER PRESET: a profile, with the trace in the folder. Fails without kernels
# of which CUPTI has told, and on a real GPU where one of them has no time.
record_steps() {
  local trace=$2/profile_trace.json kernels timed
  "$1" profile --device cuda --model resnet20 --data shapes10 --steps 3 --skip-steps 3 \
    --trace "$trace" --run-dir "$2/run_profile"
  kernels=$(grep -c '"cat":"kernel".*"registers per thread"' "$trace" || true)
  timed=$(grep -c '"ph":"X".*"cat":"kernel".*"registers per thread"' "$trace" || true)
  echo "kernels of which CUPTI has told: $kernels, with times: $timed"
  gzip -f "$trace"
  [ "$kernels" -gt 0 ] && { [ "$3" = sim ] || [ "$timed" = "$kernels" ]; }
}

skip() { if wanted "$1"; then record "$1" "skipped: $2" 0; fi }

# Tables last, of which callers may see no more than the end. Ends with 1 if a step has not passed.
finish() {
  jobs -p | xargs -r kill 2>/dev/null || true
  if [ -f "$out/tables.txt" ]; then cat "$out/tables.txt"; fi
  save_logs
  cat "$out/steps.jsonl"
  echo "results: $out"
  if [ ! -s "$out/steps.jsonl" ]; then echo "gpu_check: no step was run" >&2; exit 2; fi
  if grep -q -e '"failed"' -e '"no time left"' "$out/steps.jsonl"; then exit 1; fi
}
: >"$out/steps.jsonl"
rm -f "$out/tables.txt"
trap finish EXIT

# The folder of the toolkit. The libraries that PyTorch came with go first, so that both sides call
# the same cuDNN and cuBLAS; a build takes headers of theirs that the toolkit lacks.
find_libraries() {
  local nvcc wheels part header
  if nvcc=$(command -v nvcc); then
    export CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
  fi
  if [ -z "$python" ]; then return; fi
  wheels=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__path__[0]))')/nvidia
  while read -r part header; do
    [ -d "$wheels/$part/lib" ] || continue
    echo "libraries of $wheels/$part"
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels/$part/lib
    if ! c++ -E -x c++ -I"${CUDA_HOME-}/include" -include "$header" /dev/null >/dev/null 2>&1; then
      export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$wheels/$part/include
      export CMAKE_INCLUDE_PATH=${CMAKE_INCLUDE_PATH:+$CMAKE_INCLUDE_PATH:}$wheels/$part/include
    fi
  done <<'END'
cudnn cudnn_graph.h
nccl nccl.h
cu13 cublasLt.h
cuda_cupti cupti.h
END
}

# On the simulated GPU time is no figure, and two cores may have to do.
limit=120
python=
if [ "$preset" = sim ]; then
  limit=3600
else
  PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
  for candidate in "${PYTHON:-}" python3; do
    if [ -n "$candidate" ] && "$candidate" -c 'import torch' 2>/dev/null; then
      python=$candidate
      break
    fi
  done
  find_libraries
fi

# Programs that were built elsewhere, with the libraries that they load. Some of them know the
# folder of the sources, which is to be found where it was.
use_carried() {
  [ -f bundle/preset ] && [ "$(cat bundle/preset)" = "$preset" ] || return 1
  local libraries=$PWD/bundle/lib/x86_64-linux-gnu root
  if ! LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    bundle/bin/wick --help >"$logs/carried.log" 2>&1; then
    echo "the programs of bundle/ do not start here:" "$(tail -n 1 "$logs/carried.log")"
    return 1
  fi
  root=$(cat bundle/root)
  if ! [ "$root" -ef "$PWD" ]; then
    mkdir -p "$(dirname "$root")" && [ ! -e "$root" ] && ln -s "$PWD" "$root" || return 1
  fi
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  bin=$root/bundle/bin
}

build_here() {
  local targets=(wick_cli) given=(-DWICK_TESTS=ON -DWICK_BENCH=ON)
  targets+=(wick_bench wick_peer core_test data_test dist_test golden_test nn_test core_ops_test)
  targets+=(optim_test core_profile_test)
  if [ "$preset" = sim ]; then targets+=(kernels_sim_test); fi
  if [ -f bundle/cache.cmake ]; then given+=(-C bundle/cache.cmake); fi
  if [ "$preset" = cuda ] && ! command -v nvidia-smi >/dev/null; then  # which tells it otherwise
    given+=(-DCMAKE_CUDA_ARCHITECTURES=90)
  fi
  bin=build/$preset/bin
  step configure $limit cmake --preset "$preset" "${given[@]}"
  step build $((limit * 3)) cmake --build --preset "$preset" --target "${targets[@]}"
}

if [ ! -d bundle ] && [ -f bundle.tar.xz ]; then tar -xf bundle.tar.xz; fi
if use_carried; then
  record carried passed 0
else
  build_here
fi

# tests NAME FILTER: those of NAME_test that use a GPU.
tests() {
  beside "$1" $limit "$bin/$1_test" --gtest_filter="$2" --gtest_output="json:$logs/$1.json"
}
beside doctor $limit "$bin/wick" doctor
beside golden $limit "$bin/golden_test" --device cuda
beside train $limit "$bin/wick" train --device cuda --model lenet --max-steps 20 --eval-every 0 \
  --run-dir "$logs/run" --json
# Kernels of which CUPTI has told have a size; on a GPU they have times, too.
export -f record_steps
beside profile $limit bash -c 'record_steps "$@"' - "$bin/wick" "$logs" "$preset"
on_gpu='*other_device*:to_device*:*AGpu*:*OnEveryDevice:*KernelsName*:*MatMulOn*:AddLayerNorm*'
on_gpu+=':Attention.RowsWhose*:BatchNorm.IsAccurate*:CropImages*:CrossEntropy.SmoothsLarge*'
tests core_ops "$on_gpu"
tests nn 'Offload*:*Activation*:*CheckpointOn*:DetectAnomaly*:AutocastModels*:Lint*:Module*'
tests optim '*'
tests core 'Autocast*:CudaGraphTest*'
tests core_profile 'GpuProfile*:GpuActivities*'
tests data 'Batch*:Prefetcher*:RandomStreams*:*Gpu*'
tests dist '*Gpu*:Nccl*:ProcessGroup*:AllReduceSum*:Replicas*'
for part in 0 1 2 3 4 5 6 7; do  # PyTorch's own samples, if the bundle has them
  if [ -d "bundle/cases/$part" ]; then
    beside "samples_$part" $limit "$bin/golden_test" --device cuda --cases "bundle/cases/$part" \
      --survey "$logs/samples_$part.json"
  fi
done
if [ "$preset" = sim ]; then
  beside simulator $limit "$bin/kernels_sim_test" --gtest_output="json:$logs/sim.json"
  # The peers' program on a GPU, with nobody beside it.
  beside peer $limit sh -c "printf 'run 2\nmemory\nrequests\n' | '$bin/wick_peer' mlp_b64 2 cuda"
  wait
  exit
fi

beside one_binary $limit tools/check_one_binary.sh "$bin/wick"
wait

# peers STEP MOST STYLES WORKLOADS: figures beside PyTorch's; the first step measures ceilings.
seconds=5
if [ -n "$quick" ]; then seconds=1; fi
peers() {
  local name=$1 most=$2 styles=$3 workloads=$4 json=$out/$1.json
  if [ "$name" = peers_compiled ]; then json=$logs/$1.json; fi
  step "$name" "$most" bench/peers/compare.py --device cuda --python "$python" --wick \
    "$bin/wick_peer" --seconds $seconds --ceilings "$out/peers_rows.json" --styles "$styles" \
    --workloads "$workloads" --json "$json"
}
# Each network's engines, measured once.
make_plans() {
  for workload in ${resnets//,/ }; do echo | "$bin/wick_peer" "$workload" 2 cuda; done
}
rows=softmax_bf16_backward,layer_norm_bf16_backward,gelu_bf16_backward
rows+=,cross_entropy_50257_bf16_backward,adamw_100m,adamw_1000_tensors,mlp_b64,mlp_b64_graph
rows+=,allocator_pair,add_1k
resnets=resnet50_224_b256_bf16,resnet18_224_b128_bf16,resnet18_32_b128_bf16
article=article_001,article_001_tuned
if [ -n "$python" ]; then
  rm -f "$out"/peers_*.json "$logs/plans.txt"
  peers peers_rows 120 tuned "$rows"
  export WICK_PEER_PLANS=$logs/plans.txt
  export -f make_plans
  export bin resnets
  step plans 60 bash -c 'rm -f "$WICK_PEER_PLANS"; make_plans'
  peers peers_resnet 150 tuned "$resnets,${resnets//_bf16/_bf16_graph}"
  peers peers_article 90 tuned "$article"
  unset WICK_PEER_PLANS
  peers peers_written 120 written "$resnets,mlp_b64,adamw_100m"
else
  skip peers_rows 'no torch: name a Python that has one by PYTHON='
fi

filter=()
if [ -n "$quick" ]; then
  chosen='allocator|copy/(clone|to_bf|transp)|elementwise/(add|add_64_.*|gelu|mul)/|loss/cross'
  chosen+='|matmul/2048|norm/(layer|rms)_4096|optim/adamw|reduce/sum_[acr]|softmax/rows'
  filter=(--filter "^($chosen)")
fi
step bench $((limit * 10)) "$bin/wick-bench" --device cuda --json "$out/bench.json" "${filter[@]}"

for tool in memcheck racecheck synccheck; do
  if ! command -v compute-sanitizer >/dev/null; then
    skip "${tool}_0" 'no compute-sanitizer'
    continue
  fi
  for shard in 0 1 2 3; do
    beside "${tool}_$shard" $limit env GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard \
      compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$bin/core_ops_test" --gtest_filter='*other_device_float32'
  done
done
wait

if [ -n "$python" ]; then
  peers peers_compiled 2000 compiled "$resnets,${rows%,allocator_pair*}"
fi
step train_resnet $limit "$bin/wick" train --device cuda --model resnet20 --epochs 5 \
  --run-dir "$logs/run_resnet" --json
step study $((limit * 10)) "$bin/wick" study --device cuda --seconds 3 \
  --run-dir "$logs/study" --bench "$out/bench.json" \
  use-the-gpu pinned-memory copy-ahead float16 bfloat16 conv-autotuning channels-last \
  fused-norm fused-optimizer fused-loss set-to-none read-loss-seldom activation-checkpointing
