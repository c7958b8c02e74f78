#!/usr/bin/env bash
# Builds, tests and times the cuda backend on a machine with a GPU and a CUDA toolkit and no network.
# Usage: tools/gpu_check.sh pack PACK          here: source.tgz, llama.tgz and prefix.tgz into the folder PACK
#        PACK/gpu_check.sh run PACK [STAGE...] there; without a stage: build test bench attention models
#   build      the program, its tests and benchmarks
#   test       what has the label gpu
#   bench      `bench` on the embedded model and on every model in PACK
#   attention  cuDNN's dense attention through torch, then attend_bench, in one call (docs/gpu.md, "Attention")
#   models     whole requests, method against method, and what fp8 and sparse prompts do to answers ("Sparse prompts")
#   sanitize   compute-sanitizer: memcheck over everything, racecheck over a second build (docs/notes/gpu.md); an hour
# In PACK may lie besides: models (*.gguf), a long text (books*.txt, for attention and models), lists of labs/cuda/lists.py
# (*.lists, for attention; without them they are made of the text). What a stage lacks is named and left out. The embedded
# model is taken from assets/ of the current folder when source.tgz was packed without it (EI_CHECK_ASSETS=OFF).
# Environment: EI_DEPS_DIR (for pack: the tree to take, default .deps), EI_CHECK_DIR (where it builds, default
# /tmp/ei-gpu-check), EI_CHECK_TARGETS, EI_CHECK_FILTER (of the backend's tests), EI_CHECK_SHAPES (presets of make_gguf for
# models, default llama-3.1-8b), EI_CHECK_LENGTHS (of their prompts).
# EI_CHECK_BUILD: a build folder made on another machine of this architecture; then nothing is built, the current folder is
# the source, and racecheck wants EI_CHECK_RACE_BUILD as well.
set -euo pipefail

pack() {
  local root pack deps
  root=$(cd "$(dirname "$0")/.." && pwd)
  pack=$(realpath -m "$1")
  deps=$(realpath "${EI_DEPS_DIR:-$root/.deps}")
  mkdir -p "$pack"
  local left_out=(':!docs')
  [ "${EI_CHECK_ASSETS:-ON}" = ON ] || left_out+=(':!assets')
  git -C "$root" archive --format=tar.gz -o "$pack/source.tgz" HEAD -- . "${left_out[@]}"
  local parts=(CMakeLists.txt cmake common include src ggml vendor/CMakeLists.txt vendor/hash vendor/nlohmann vendor/cpp-httplib vendor/stb
    vendor/miniaudio vendor/sheredom LICENSE)
  (cd "$deps/llama.cpp" && tar -czf "$pack/llama.tgz" --transform 's,^,llama.cpp/,' \
    --exclude='ggml/src/ggml-[dehmorstvwz]*/*' --exclude='ggml/src/ggml-cuda/*' --exclude='ggml/src/ggml-cann/*' \
    $(for part in "${parts[@]}"; do [ -e "$part" ] && echo "$part"; done))
  (cd /usr && tar -czf "$pack/prefix.tgz" --transform 's,^,prefix/,' include/nlohmann share/cmake/nlohmann_json)
  cp "$0" "$pack/gpu_check.sh"
  du -ch "$pack"/*
}

left_out() { echo "$stage: $1 left out: $2"; }

# configure_and_build BUILD FLAGS TARGET...
configure_and_build() {
  local build=$1 flags=$2 log server=OFF
  log=$work/$(basename "$1")
  shift 2
  [ -f /usr/include/boost/beast/version.hpp ] && server=ON
  cmake -S "$tree" --preset cuda -B "$build" -DEI_DEPS_DIR="$EI_DEPS_DIR" -DEI_BENCH=ON -DEI_SERVER=$server -DCMAKE_CUDA_FLAGS="$flags" \
    >"$log-configure.log" 2>&1 || { tail -30 "$log-configure.log"; exit 1; }
  [ $server = OFF ] || [ -n "${EI_CHECK_TARGETS:-}" ] || set -- "$@" ei_serving_test
  cmake --build "$build" -j "$(nproc)" --target ${EI_CHECK_TARGETS:-"$@"} >"$log-build.log" 2>&1 ||
    { grep -E 'error|warning|FAILED' -A5 "$log-build.log" | head -60; exit 1; }
  grep -E 'warning' "$log-build.log" | head -5 || true
}

unpack() {
  [ -d "$tree/src" ] && return
  mkdir -p "$tree"
  tar -xzf "$pack/source.tgz" -C "$tree"
  [ -d "$tree/assets" ] || cp -r assets "$tree/assets"
  tar -xzf "$pack/llama.tgz" -C "$work"
  [ -d /usr/share/cmake/nlohmann_json ] || tar -xzf "$pack/prefix.tgz" -C "$work"
  (cd "$tree" && tools/deps.sh llama)
}

stage_build() {
  if [ -n "${EI_CHECK_BUILD:-}" ]; then left_out "building" "EI_CHECK_BUILD=$EI_CHECK_BUILD"; return; fi
  rm -rf "$tree/src"
  unpack
  configure_and_build "$build" "" entropyinfer make_gguf ei_gpu_test ei_gpu_engine_test device_bench device_kld attend_bench
}

# Tests know their model by the path of the source that they were compiled from, which is a literal in them.
find_source() {
  local home
  home=$(grep -aoE '(/[A-Za-z0-9_.+-]+)+/assets/needle-14m-128k-q8_0\.gguf' "$build/bin/ei_gpu_engine_test" 2>/dev/null | head -1 || true)
  home=${home%/assets/*}
  if [ -z "$home" ] || [ -e "$home" ]; then return; fi
  { mkdir -p "$(dirname "$home")" && ln -s "$tree" "$home"; } || echo "the tests' model: $home cannot be made" >&2
}

stage_test() {
  "$build/bin/entropyinfer" info --device cuda | head -8
  "$build/bin/ei_gpu_engine_test" --gtest_brief=1 ${EI_CHECK_FILTER:+--gtest_filter="$EI_CHECK_FILTER"} || failed=1
  if [ -x "$build/bin/ei_gpu_test" ]; then "$build/bin/ei_gpu_test" --gtest_brief=1 || failed=1; fi
  if [ -x "$build/bin/ei_serving_test" ]; then
    EI_TEST_DEVICE=cuda EI_CHAOS_SECONDS=60 "$build/bin/ei_serving_test" --gtest_brief=1 \
      --gtest_filter='ServerChaos.*:ServerFaults.*' || failed=1
  else
    left_out "the server on the GPU" "built without the server (headers of Boost)"
  fi
}

stage_bench() {
  local model
  for model in "$embedded" "$pack"/*.gguf; do
    [ -f "$model" ] || continue
    basename "$model"
    "$build/bin/entropyinfer" bench --device cuda -m "$model" -p 4096,32768 -n 64 -r 3 || failed=1
  done
}

has_torch() { python3 -c 'import torch' 2>/dev/null; }

stage_attention() {
  if has_torch; then python3 "$tree/labs/cuda/cudnn_dense.py" || failed=1; else left_out "cuDNN" "no torch here"; fi
  local lists text
  lists=$(ls "$pack"/*.lists 2>/dev/null | head -1 || true)
  text=$(ls "$pack"/books*.txt 2>/dev/null | head -1 || true)
  if [ -z "$lists" ] && [ -n "$text" ]; then
    # Not quite 128k tokens of such a text; a character that is cut goes.
    head -c 430000 "$text" | iconv -c -f utf-8 -t utf-8 >"$work/read.txt"
    "$build/bin/entropyinfer" run --device cuda -m "$embedded" --raw -f "$work/read.txt" -n 1 --no-display-prompt \
      --method entropyinfer --dump-plan "$work/plan.json" >/dev/null &&
      python3 "$tree/labs/cuda/lists.py" "$work/plan.json" "$work/needle.lists" && lists=$work/needle.lists || failed=1
  fi
  [ -n "$lists" ] || left_out "recorded lists" "neither *.lists nor books*.txt in $pack"
  "$build/bin/attend_bench" ${lists:+--lists "$lists"} || failed=1
}

stage_models() {
  local text shape model methods=full,entropyinfer given=()
  text=$(ls "$pack"/books*.txt 2>/dev/null | head -1 || true)
  if [ -n "$text" ]; then
    given=(--trace "$embedded" --text "$text")
    methods=full,entropyinfer@samples,entropyinfer:kv-budget=1024@samples,entropyinfer:kv-budget=1024@lists
  else
    left_out "what is given, and answers" "no books*.txt in $pack"
  fi
  for shape in ${EI_CHECK_SHAPES:-llama-3.1-8b}; do
    model=$work/$shape.gguf
    [ -f "$model" ] || "$build/bin/make_gguf" --preset "$shape" --type Q8_0 --context 1048576 "$model"
    echo "$shape, random weights"
    "$build/bin/device_bench" -m "$model" "${given[@]}" -r 3 --methods "$methods" \
      --lengths "${EI_CHECK_LENGTHS:-32668,65436,130972}" || failed=1
    "$build/bin/device_bench" -m "$model" "${given[@]}" -r 3 --methods "${methods%%,entropyinfer:*}" --lengths 130972 --products fp8 || failed=1
    "$build/bin/device_bench" -m "$model" "${given[@]}" -r 1 --methods "${methods%%,entropyinfer:*}" --lengths 130972 --cache fp8 || failed=1
  done
  if has_torch; then python3 "$tree/bench/gpu/torch_dense.py" || failed=1; else left_out "the dense witness" "no torch here"; fi
  [ -n "$text" ] || return 0
  local kld=("$build/bin/device_kld" -m "$embedded" --text "$text")
  "${kld[@]}" --cache fp8 --every 16 --lengths 4096,32768 || failed=1
  "${kld[@]}" --products fp8 --every 16 --lengths 4096,32768 || failed=1
  "${kld[@]}" --base-device cpu --method entropyinfer --lengths 131072 --every 256 || failed=1
  "$build/bin/entropyinfer" eval --device cuda --tasks niah_single_1 --lengths 128k -n 3 --seed 5 \
    --methods full,entropyinfer,entropyinfer-released,critiprefill,triangle,random-prefill,streaming || failed=1
}

# racecheck ends by an exception where warps trade registers, and does not see an order that goes through another lane: it
# gets a build without the one and with every lane at the barriers.
stage_sanitize() {
  local tool race=${EI_CHECK_RACE_BUILD:-}
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [ -z "$tool" ]; then left_out "everything" "no compute-sanitizer here"; return; fi
  # Left out: tests that want memory to run out, that break the GPU, or that are whole prompts many times over.
  local whole='-*DeathTest.*:Faults.*:CudaMemory.*:Failures.*:CudaSparse*:CudaAnswers.*'
  "$tool" --tool memcheck --error-exitcode 1 "$build/bin/ei_gpu_test" --gtest_brief=1 || failed=1
  "$tool" --tool memcheck --error-exitcode 1 "$build/bin/ei_gpu_engine_test" --gtest_brief=1 --gtest_filter="$whole" || failed=1
  "$tool" --tool memcheck --error-exitcode 1 "$build/bin/entropyinfer" demo --device cuda --tokens 12000 || failed=1
  if [ -z "$race" ] && [ -n "${EI_CHECK_BUILD:-}" ]; then left_out "racecheck" "no EI_CHECK_RACE_BUILD"; return; fi
  if [ -z "$race" ]; then
    race=$tree/build/race
    configure_and_build "$race" "-DEI_EQUAL_REGISTERS -DEI_EVERY_LANE_ARRIVES" ei_gpu_test ei_gpu_engine_test
  fi
  "$tool" --tool racecheck --error-exitcode 1 "$race/bin/ei_gpu_test" --gtest_brief=1 \
    --gtest_filter='GpuPrefill.IsTheReferenceUnderSlidingWindows:GpuPrefill.ReadsThePlannedBlocksAlone:GpuDecode.*' || failed=1
  "$tool" --tool racecheck --error-exitcode 1 "$race/bin/ei_gpu_engine_test" --gtest_brief=1 \
    --gtest_filter='CudaRating.*:CudaSelect.*:CudaSlots.AreRated*:CudaMeasures.*:Operations.*' || failed=1
}

case ${1:?pack or run} in
  pack) pack "${2:?a folder}" ;;
  run)
    pack=$(realpath "${2:?a folder with source.tgz and llama.tgz}")
    shift 2
    work=${EI_CHECK_DIR:-/tmp/ei-gpu-check}
    mkdir -p "$work"
    if [ -n "${EI_CHECK_BUILD:-}" ]; then
      tree=$PWD
      build=$(realpath "$EI_CHECK_BUILD")
      find_source
    else
      tree=$work/tree
      build=$tree/build/cuda
    fi
    embedded=$tree/assets/needle-14m-128k-q8_0.gguf
    export EI_DEPS_DIR=$work/deps LLAMA_CPP_DIR=$work/llama.cpp CMAKE_PREFIX_PATH=$work/prefix
    failed=0
    for stage in ${*:-build test bench attention models}; do
      begun=$SECONDS
      "stage_$stage"
      echo "$stage: $((SECONDS - begun)) s"
    done
    exit $failed ;;
  *) echo "usage: gpu_check.sh pack PACK | run PACK [build] [test] [bench] [attention] [models] [sanitize]" >&2; exit 2 ;;
esac
