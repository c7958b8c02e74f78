#!/usr/bin/env bash
# Builds, tests and times the engine on another machine that has a compiler and no network.
# Usage: tools/machine_check.sh PACK [build] [test] [bench]    (all three without a word)
#   PACK   a folder with llama.tgz (the pinned llama.cpp tree, in a folder llama.cpp) and prefix.tgz (headers, libraries and
#          CMake files of packages that are missing there, in a folder prefix)
# bench runs on the first two cores, with random weights in the shapes of the models of bench/vs_llama_cpp.
# Environment: EI_CHECK_DIR (where it builds; default /tmp/ei-check), EI_CHECK_ROUNDS (of bench/vs_llama_cpp; default 1).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
pack=$(realpath "${1:?a folder with llama.tgz and prefix.tgz}")
shift
work=${EI_CHECK_DIR:-/tmp/ei-check}
build=$root/build/release
mkdir -p "$work"
export EI_DEPS_DIR=$work/deps EI_MODELS_DIR=$work/models LLAMA_CPP_DIR=$work/llama.cpp
export CMAKE_PREFIX_PATH=$work/prefix
export LD_LIBRARY_PATH=$(echo "$work"/prefix/lib/*-linux-gnu)

stage_build() {
  tar -xzf "$pack/llama.tgz" -C "$work"
  tar -xzf "$pack/prefix.tgz" -C "$work"
  "$root/tools/deps.sh" llama
  cmake -S "$root" --preset release -DEI_DEPS_DIR="$EI_DEPS_DIR" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
  grep -i onednn "$work/configure.log" || true
  cmake --build "$build" -j "$(nproc)" | tail -1
  "$root/bench/vs_llama_cpp" --rows needle-tg128 --rounds 1 --theirs-only  # builds llama-bench with all cores
}

stage_test() {
  "$build/bin/entropyinfer" info | head -20
  ctest --test-dir "$build" -j $(($(nproc) / 2)) --output-on-failure -L '^(unit|parity|policy|e2e|fuzz)$' -LE '^(gpu|slow|model|mpi)$'
}

stage_bench() {
  mkdir -p "$EI_MODELS_DIR"
  local make="$build/bin/make_gguf"
  [ -f "$EI_MODELS_DIR/gemma-3-270m-Q4_K_M.gguf" ] ||
    "$make" --preset gemma3-270m --type Q4_0 "$EI_MODELS_DIR/gemma-3-270m-Q4_K_M.gguf"
  [ -f "$EI_MODELS_DIR/SmolLM2-135M-Instruct-Q4_1.gguf" ] ||
    "$make" --preset smollm2-135m --type Q4_1 "$EI_MODELS_DIR/SmolLM2-135M-Instruct-Q4_1.gguf"
  taskset -c 0,1 "$root/bench/vs_llama_cpp" --threads 2 --rounds "${EI_CHECK_ROUNDS:-1}"
  taskset -c 0 "$build/bin/attention_bench" --threads 1
  taskset -c 0 "$build/bin/gemm_bench" --threads 1
  taskset -c 0 "$build/bin/sparse_bench"
  taskset -c 0,1 "$root/bench/requests" --rounds 1 --lengths 8192,16384,32768 --threads 2
}

for stage in ${*:-build test bench}; do "stage_$stage"; done
