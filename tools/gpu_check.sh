#!/usr/bin/env bash
# Builds, tests and times the cuda backend on a machine with a GPU and a CUDA toolkit and no network.
# Usage: tools/gpu_check.sh pack PACK          here: source.tgz, llama.tgz, prefix.tgz and the scripts into the folder PACK
#        PACK/gpu_check.sh run PACK [STAGE...] there; without a stage: build test bench attention models answers
# Stages, with the minutes that an H200 beside 16 cores is reckoned to take. What asks for a shape with random weights makes
# its file the first time. Whatever a stage lacks is named and left out.
#   collect    0    what has come of models, text and lists; every run begins with it
#   build      5    the program, its tests and benchmarks
#   test       3    ei_gpu_test and ei_gpu_engine_test, then the stages parity, downloaded and server
#   parity     0.5  every backend of the registry against libllama
#   downloaded 1    SmolLM2 and gemma-3 beside the CPU: logits and greedy tokens
#   server     3    the server's chaos and faults on the GPU (EI_CHAOS_SECONDS of each kind, default 60: long enough to see leaks)
#   bench      1    `bench` on the embedded model and on every model that came
#   attention  1    cuDNN's dense attention through torch, then attend_bench, in one call (docs/gpu.md, "Attention")
#   flashinfer 1    its sparse prefill over the same lists, where the package is installed
#   models     6    whole requests of 32k, 64k and 128k, method against method ("Sparse prompts")
#   fp8        3    128k with products in 8 bits on both sides; fp8cache  1  with the cache in 8 bits
#   long256    2    256k, full attention once and a sparse prompt five times
#   long512    4    512k, full attention and a sparse prompt once: what a million dense tokens are reckoned from
#   long1m     3    a million tokens, sparse, cache in fp8
#   kernels    4    every kernel's time in a sparse prompt of 128k, 256k and a million tokens (labs/cuda/kernel_times.cpp)
#   products   0.5  the ways that cuBLASLt's heuristic names (labs/cuda/product_algorithms.cu)
#   shapes     7    128k of Qwen2.5-7B, Qwen3-4B, Mistral-7B and openPangu-7B
#   witness    1    the same dense prompt through torch and cuDNN
#   adaptive   1    the embedded model at 128k, sparse beside the CPU's full attention
#   smollm     1    SmolLM2 of 4k and 8k tokens beside the CPU, full and sparse
#   gemma      3    gemma-3-270m of 4k and 32k beside the CPU, full and sparse
#   answers    2    what 8 bits do to answers, needles at 128k, and the stage adaptive
#   llama      9    llama.cpp's CUDA backend on the same file; building it takes most of that and goes on where it stopped
#   sanitize   60   compute-sanitizer: memcheck over everything, racecheck over a second build (docs/notes/gpu.md)
#   all        53   every stage but sanitize
# In PACK may lie besides: models (*.gguf, or in parts as `pack` cuts them, over several runs), a long text (books*.txt), lists
# of labs/cuda/lists.py (*.lists; without them they are made of the text). The embedded model is taken from assets/ of the
# current folder when source.tgz was packed without it (EI_CHECK_ASSETS=OFF).
# Environment of pack: EI_DEPS_DIR (the tree to take, default .deps), EI_CHECK_MODELS ("FILE FILE": cut into parts of 37 MB),
# EI_CHECK_TEXT (a file), EI_CHECK_LLAMA_CUDA=ON (llama.cpp's CUDA backend).
# Environment of run: EI_CHECK_DIR (where it builds, default /tmp/ei-gpu-check), EI_CHECK_TARGETS, EI_CHECK_FILTER (of the
# backend's tests), EI_CHECK_SHAPES (presets of make_gguf for models, default llama-3.1-8b), EI_CHECK_LENGTHS (of their prompts),
# EI_CHECK_ROUNDS (of models, fp8 and long256, default 5; of long1m, 1).
# EI_CHECK_BUILD: a build folder made on another machine of this architecture; then nothing is built, the current folder is
# the source, and racecheck wants EI_CHECK_RACE_BUILD as well.
set -euo pipefail

# Headers of Boost that the server and its tests take, by what the compiler reads; the rest of those parts that ask the
# compiler what it can besides, since the other one is of another version.
boost_headers() {
  local root=$1 include=${2%/boost} tls=()
  [ -f "$include/openssl/ssl.h" ] && tls=(-DEI_HAVE_TLS)
  (cd "$root" && grep -rlE '#include <boost/' src/server tests/server | xargs "${CXX:-g++}" -std=c++20 -M -MG "${tls[@]}" -I src -x c++) |
    tr -s ' \\' '\n' | grep "^$include/boost/" | sed "s,^$include/,," | sort -u
  (cd "$include" && find boost/asio boost/beast boost/config boost/core boost/predef boost/system boost/version.hpp -type f)
}

pack() {
  local root pack deps boost=/usr/include/boost model
  root=$(cd "$(dirname "$0")/.." && pwd)
  pack=$(realpath -m "$1")
  deps=$(realpath "${EI_DEPS_DIR:-$root/.deps}")
  mkdir -p "$pack"
  local left_out=(':!docs')
  [ "${EI_CHECK_ASSETS:-ON}" = ON ] || left_out+=(':!assets')
  git -C "$root" archive --format=tar.gz -o "$pack/source.tgz" HEAD -- . "${left_out[@]}"
  local parts=(CMakeLists.txt cmake common include src ggml vendor/CMakeLists.txt vendor/hash vendor/nlohmann vendor/cpp-httplib vendor/stb
    vendor/miniaudio vendor/sheredom LICENSE)
  local without=(--exclude='ggml/src/ggml-[dehmorstvwz]*/*' --exclude='ggml/src/ggml-cann/*')
  if [ "${EI_CHECK_LLAMA_CUDA:-OFF}" = ON ]; then
    parts+=(tools licenses)
    without+=(--exclude='tools/ui/*' --exclude='tools/server/*')
  else
    without+=(--exclude='ggml/src/ggml-cuda/*')
  fi
  (cd "$deps/llama.cpp" && tar -czf "$pack/llama.tgz" --transform 's,^,llama.cpp/,' "${without[@]}" \
    $(for part in "${parts[@]}"; do [ -e "$part" ] && echo "$part"; done))
  {
    (cd /usr && find include/nlohmann share/cmake/nlohmann_json -type f)
    if [ -f $boost/beast/version.hpp ]; then boost_headers "$root" $boost | sed 's,^,include/,'; fi
  } | sort -u | tar -C /usr -czf "$pack/prefix.tgz" --transform 's,^,prefix/,' -T -
  cp "$root"/tools/gpu_check.sh "$root"/tools/gpu_times.sh "$pack"
  [ -z "${EI_CHECK_TEXT:-}" ] || cp "$EI_CHECK_TEXT" "$pack/books.txt"
  for model in ${EI_CHECK_MODELS:-}; do
    split -b 37MB -d "$model" "$pack/$(basename "$model").part"
    sha256sum <"$model" >"$pack/$(basename "$model").sha256"
  done
  du -ch "$pack"/*
}

left_out() { echo "$stage: $1 left out: $2"; }

# Models, texts and lists are kept from run to run; a model in parts is joined when none is missing.
collect() {
  local sum model
  mkdir -p "$given_files"
  for model in "$pack"/*.gguf; do
    [ ! -f "$model" ] || ln -sf "$model" "$given_files"
  done
  find "$pack" -maxdepth 1 \( -name '*.gguf.part*' -o -name '*.gguf.sha256' -o -name 'books*.txt' -o -name '*.lists' \) \
    -exec cp -t "$given_files" {} +
  for sum in "$given_files"/*.gguf.sha256; do
    model=${sum%.sha256}
    if [ ! -f "$sum" ] || [ -f "$model" ]; then continue; fi
    cat "$model".part* >"$model.joined" 2>/dev/null || true
    if [ "$(sha256sum <"$model.joined")" = "$(cat "$sum")" ]; then
      mv "$model.joined" "$model"
      rm -f "$model".part*
    else
      rm -f "$model.joined"
      echo "$(basename "$model"): not whole yet, parts $(cd "$given_files" && echo "$(basename "$model")".part* | sed 's/[^ ]*part//g')"
    fi
  done
}

stage_collect() { (cd "$given_files" && ls -l); }

# first_of PATTERN: of what came, or nothing.
first_of() { compgen -G "$given_files/$1" | head -1 || true; }

# configure_and_build BUILD FLAGS TARGET...
configure_and_build() {
  local build=$1 flags=$2 log server=OFF boost
  log=$work/$(basename "$1")
  shift 2
  for boost in /usr/include "$work/prefix/include"; do
    [ ! -f "$boost/boost/beast/version.hpp" ] || server=ON
  done
  cmake -S "$tree" --preset cuda -B "$build" -DEI_DEPS_DIR="$EI_DEPS_DIR" -DEI_BENCH=ON -DEI_SERVER=$server -DCMAKE_CUDA_FLAGS="$flags" \
    >"$log-configure.log" 2>&1 || { tail -30 "$log-configure.log"; exit 1; }
  [ $server = OFF ] || [ -n "${EI_CHECK_TARGETS:-}" ] || [ -n "$flags" ] || set -- "$@" ei_serving_test
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
  tar -xzf "$pack/prefix.tgz" -C "$work"
  (cd "$tree" && tools/deps.sh llama)
}

stage_build() {
  if [ -n "${EI_CHECK_BUILD:-}" ]; then left_out "building" "EI_CHECK_BUILD=$EI_CHECK_BUILD"; return; fi
  rm -rf "$tree/src"
  unpack
  configure_and_build "$build" "" entropyinfer make_gguf ei_gpu_test ei_gpu_engine_test ei_gpu_model_test ei_parity_test \
    device_bench device_kld attend_bench kernel_times product_algorithms
}

# Tests know their model by the path of the source that they were compiled from, which is a literal in them.
find_source() {
  local home
  home=$(grep -aoE '(/[A-Za-z0-9_.+-]+)+/assets/needle-14m-128k-q8_0\.gguf' "$build/bin/ei_gpu_engine_test" 2>/dev/null | head -1 || true)
  home=${home%/assets/*}
  if [ -z "$home" ] || [ -e "$home" ]; then return; fi
  { mkdir -p "$(dirname "$home")" && ln -s "$tree" "$home"; } || echo "the tests' model: $home cannot be made" >&2
}

# run_test NAME ARGUMENT...: a test program, where it was built.
run_test() {
  local program=$build/bin/$1
  if [ ! -x "$program" ]; then left_out "$1" "not built"; return; fi
  shift
  "$program" --gtest_brief=1 "$@" || failed=1
}

stage_test() {
  "$build/bin/entropyinfer" info --device cuda | head -8
  run_test ei_gpu_engine_test ${EI_CHECK_FILTER:+--gtest_filter="$EI_CHECK_FILTER"}
  run_test ei_gpu_test
  stage_parity
  stage_downloaded
  stage_server
}

stage_all() {
  local stage
  for stage in build test bench attention flashinfer models fp8 fp8cache long256 long512 long1m kernels products shapes witness \
    smollm gemma answers llama; do
    "stage_$stage"
  done
}

stage_parity() { run_test ei_parity_test --gtest_filter='Backends.*'; }

# gtest_brief names no skipped test, and one may lack its model.
stage_downloaded() { run_test ei_gpu_model_test --gtest_brief=0; }

stage_server() {
  EI_TEST_DEVICE=cuda EI_CHAOS_SECONDS=${EI_CHAOS_SECONDS:-60} run_test ei_serving_test --gtest_filter='ServerChaos.*:ServerFaults.*'
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
    source "$(dirname "$0")/gpu_times.sh"
    pack=$(realpath "${2:?a folder with source.tgz and llama.tgz}")
    shift 2
    for stage in "$@"; do
      declare -F "stage_$stage" >/dev/null || { echo "gpu_check.sh: no stage $stage" >&2; exit 2; }
    done
    work=${EI_CHECK_DIR:-/tmp/ei-gpu-check}
    given_files=$work/given
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
    export EI_DEPS_DIR=$work/deps LLAMA_CPP_DIR=$work/llama.cpp CMAKE_PREFIX_PATH=$work/prefix EI_MODELS_DIR=$given_files
    failed=0
    collect
    for stage in ${*:-build test bench attention models answers}; do
      begun=$SECONDS
      "stage_$stage"
      echo "$stage: $((SECONDS - begun)) s"
    done
    exit $failed ;;
  *) echo "usage: gpu_check.sh pack PACK | run PACK [STAGE...]   (stages: see the head of this file)" >&2; exit 2 ;;
esac
