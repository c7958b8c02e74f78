#!/usr/bin/env bash
# Builds the whole engine for the other architecture and runs it under qemu, next to libllama built the same way: equal
# logits bit for bit on the ggml backend, the bounds of the parity tests on rare weight types, an answer of the program.
# For what CI and tools/cross_check.sh (the kernels alone) cannot see on one machine. Exit 77 without a cross compiler.
#
#   tools/cross_engine.sh [gtest-filter]
#
# Takes about five minutes to build on two cores and ten to run. qemu knows AVX2, but neither AVX-512 nor AMX.
set -euo pipefail
cd "$(dirname "$0")/.."
filter=${1:-*GgmlBackend*FewTokens*:MixedWeightTypes.*}
build=$PWD/build/cross-engine
deps=${EI_DEPS_DIR:-$PWD/.deps}
tree=${LLAMA_CPP_DIR:-$deps/llama.cpp}

case "$(uname -m)" in
  aarch64 | arm64) target=x86_64 ;;
  x86_64) target=aarch64 ;;
  *) echo "cross_engine: no counterpart of $(uname -m) to check" && exit 77 ;;
esac
googletest=${EI_GOOGLETEST_DIR:-/usr/src/googletest}
if ! command -v "$target-linux-gnu-g++" >/dev/null || ! command -v "qemu-$target" >/dev/null || [ ! -d "$googletest" ]; then
  echo "cross_engine: needs g++-${target/_/-}-linux-gnu, qemu-user and GoogleTest's sources"
  exit 77
fi
[ -d "$tree" ] || { echo "cross_engine: no llama.cpp tree in $tree; run make build first" && exit 1; }

mkdir -p "$build"
cat >"$build/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $target)
set(CMAKE_C_COMPILER $target-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER $target-linux-gnu-g++)
END

# configure_and_build SOURCE FOLDER TARGETS OPTIONS...
configure_and_build() {
  local source=$1 folder=$build/$2 targets=$3
  shift 3
  mkdir -p "$folder"
  if ! cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$build/toolchain.cmake" "$@" >"$folder/configure.log" 2>&1; then
    tail -20 "$folder/configure.log" && exit 1
  fi
  # shellcheck disable=SC2086
  if ! cmake --build "$folder" -j "$(nproc)" --target $targets >"$folder/build.log" 2>&1; then
    tail -40 "$folder/build.log" && exit 1
  fi
}
configure_and_build third_party/llama "build-llama-$target" all -DLLAMA_CPP_DIR="$tree"
touch "$build/build-llama-$target/.key"
configure_and_build "$googletest" googletest install -DCMAKE_INSTALL_PREFIX="$build/prefix"
configure_and_build . engine "ei_parity_test ei_ggml_backend_test entropyinfer" -DEI_DEPS_DIR="$build" -DCMAKE_PREFIX_PATH="$build/prefix" \
  -DEI_ONEDNN=OFF -DEI_TESTS=ON
echo "cross_engine: the engine is built for $target"

run=("qemu-$target" -cpu max -L "/usr/$target-linux-gnu")
answer=$("${run[@]}" "$build/engine/bin/entropyinfer" run --raw -p "Once upon a time" -n 8 -s 1 --temp 0 -t 1 2>"$build/run.log") ||
  { cat "$build/run.log" && exit 1; }
echo "cross_engine: it answers: $answer"
for test in ei_parity_test ei_ggml_backend_test; do
  "${run[@]}" "$build/engine/bin/$test" --gtest_brief=1 --gtest_filter="$filter"
done
