#!/usr/bin/env bash
# Builds, tests and times the cuda backend on a machine with a GPU and a CUDA toolkit and no network.
# Usage: tools/gpu_check.sh pack PACK                         here: source.tgz, llama.tgz and prefix.tgz into the folder PACK
#        PACK/gpu_check.sh run PACK [build] [test] [bench]    there (all three without a word)
# A model file in PACK (*.gguf) is timed too. The embedded model is taken from assets/ of the current folder when source.tgz
# was packed without it (EI_CHECK_ASSETS=OFF).
# Environment: EI_DEPS_DIR (for pack: the tree to take, default .deps), EI_CHECK_DIR (where it builds, default
# /tmp/ei-gpu-check), EI_CHECK_TARGETS, EI_CHECK_FILTER (of the backend's tests).
set -euo pipefail

pack() {
  local root pack deps
  root=$(cd "$(dirname "$0")/.." && pwd)
  pack=$(realpath -m "$1")
  deps=$(realpath "${EI_DEPS_DIR:-$root/.deps}")
  mkdir -p "$pack"
  local left_out=(':!labs' ':!docs')
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

stage_build() {
  mkdir -p "$tree"
  tar -xzf "$pack/source.tgz" -C "$tree"
  [ -d "$tree/assets" ] || cp -r assets "$tree/assets"
  tar -xzf "$pack/llama.tgz" -C "$work"
  [ -d /usr/share/cmake/nlohmann_json ] || tar -xzf "$pack/prefix.tgz" -C "$work"
  (cd "$tree" && tools/deps.sh llama)
  cmake -S "$tree" --preset cuda -DEI_DEPS_DIR="$EI_DEPS_DIR" -DEI_BENCH=ON -DEI_SERVER=OFF >"$work/configure.log" 2>&1 ||
    { tail -30 "$work/configure.log"; exit 1; }
  cmake --build "$build" -j "$(nproc)" --target ${EI_CHECK_TARGETS:-entropyinfer make_gguf ei_gpu_test ei_gpu_engine_test} \
    >"$work/build.log" 2>&1 || { grep -E 'error|warning|FAILED' -A5 "$work/build.log" | head -60; exit 1; }
  grep -E 'warning' "$work/build.log" | head -5 || true
}

stage_test() {
  "$build/bin/entropyinfer" info | head -8
  "$build/bin/ei_gpu_engine_test" --gtest_brief=1 ${EI_CHECK_FILTER:+--gtest_filter="$EI_CHECK_FILTER"} || failed=1
  if [ -x "$build/bin/ei_gpu_test" ]; then "$build/bin/ei_gpu_test" --gtest_brief=1 || failed=1; fi
}

stage_bench() {
  local model
  for model in "$tree/assets/needle-14m-128k-q8_0.gguf" "$pack"/*.gguf; do
    [ -f "$model" ] || continue
    echo "$(basename "$model")"
    "$build/bin/entropyinfer" bench --device cuda -m "$model" -p 4096,32768 -n 64 -r 3 || failed=1
  done
}

case ${1:?pack or run} in
  pack) pack "${2:?a folder}" ;;
  run)
    pack=$(realpath "${2:?a folder with source.tgz and llama.tgz}")
    shift 2
    work=${EI_CHECK_DIR:-/tmp/ei-gpu-check}
    tree=$work/tree
    build=$tree/build/cuda
    mkdir -p "$work"
    export EI_DEPS_DIR=$work/deps LLAMA_CPP_DIR=$work/llama.cpp CMAKE_PREFIX_PATH=$work/prefix
    failed=0
    for stage in ${*:-build test bench}; do
      begun=$SECONDS
      "stage_$stage"
      echo "$stage: $((SECONDS - begun)) s"
    done
    exit $failed ;;
  *) echo "usage: gpu_check.sh pack PACK | run PACK [build] [test] [bench]" >&2; exit 2 ;;
esac
