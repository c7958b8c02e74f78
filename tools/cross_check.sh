#!/usr/bin/env bash
# Compiles the kernels for the other architecture with all warnings as errors, and runs its kernel tests under qemu for
# the instructions that qemu knows (x86-64: AVX2). Exit 77 when there is no cross compiler: nothing was checked.
#
#   tools/cross_check.sh [build-dir] [gtest-filter]
#
# The default filter takes about a minute under qemu; '*' runs every kernel test, in some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/cross}
quick=AttentionChoice.*:Attention.SeesOnlyTheWindow:Attention.ReadsCompacted*:Attention.GivesZeros*:Attention.IsDense*
plans=Attention.ReadsThePlannedBlocks*
peaks=PeakChoice.*:ByteProducts/*:RowPeaks.*:*PeakTwins.*
filter=${2:-$quick:$plans:Attention.DoesNotDependOnHow*:Rowwise.*:GemmChoice.*:*Gemm.*lanes:*GemmOnWorkers.*lanes:$peaks:*WindowScores*}

case "$(uname -m)" in
  aarch64 | arm64) target=x86_64 ;;
  x86_64) target=aarch64 ;;
  *) echo "cross_check: no counterpart of $(uname -m) to check" && exit 77 ;;
esac
cxx=${EI_CROSS_CXX:-$target-linux-gnu-g++}
nm=$target-linux-gnu-nm
if ! command -v "$cxx" >/dev/null; then
  echo "cross_check: no $cxx; install g++-${target/_/-}-linux-gnu to check the $target kernels"
  exit 77
fi

mkdir -p "$build"
plain="-std=c++20 -O2 -ffp-contract=off -Isrc"
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

# The flags of an ISA file, from the one place that knows them.
isa_flags() {
  awk -v target="$target" '/if\(CMAKE_SYSTEM_PROCESSOR/ { on = index($0, target) > 0 } on' src/kernels/isa.cmake |
    sed -n "s|^ *ei_isa(${1#src/kernels/} \"\(.*\)\")$|-O3 \1|p" | tr ';' ' '
}

# compile SOURCE FLAGS...: an object in $build, unless it is newer than every header and its source.
objects=()
compile() {
  local source=$1 object
  shift
  object=$build/$(echo "$source" | tr '/' '_' | sed 's/\.cpp$/.o/;s/\.cc$/.o/')
  objects+=("$object")
  if [ -e "$object" ] && [ -z "$(find "$source" src tests/support -newer "$object" \( -name '*.h' -o -path "$source" \) -print -quit)" ]; then
    return
  fi
  # shellcheck disable=SC2068
  "$cxx" $@ -c "$source" -o "$object"
}

for source in src/base/*.cpp src/tensor/*.cpp src/plan/*.cpp $(find src/kernels -name '*.cpp' | sort); do
  case $source in
    *_test.cpp) continue ;;
  esac
  flags=$(isa_flags "$source")
  compile "$source" $plain $warnings $flags
  # What an ISA file shares with others by name could replace their copy and fault on an older CPU.
  if [ -n "$flags" ] && "$nm" -C --defined-only "${objects[-1]}" | grep ' [WV] ' | grep -v DW.ref; then
    echo "cross_check: $source defines the symbols above for everyone, compiled for its own instructions"
    exit 1
  fi
done
echo "cross_check: ${#objects[@]} files compiled for $target"

googletest=${EI_GOOGLETEST_DIR:-/usr/src/googletest/googletest}
qemu=qemu-$target
if ! command -v "$qemu" >/dev/null || [ ! -d "$googletest" ]; then
  echo "cross_check: not run: needs $qemu (qemu-user) and GoogleTest's sources"
  exit 0
fi
for source in src/kernels/attention/attention{,_threads}_test.cpp src/kernels/products/gemm{,_threads}_test.cpp \
  src/kernels/rowwise/rowwise_test.cpp src/kernels/block_scores/cpu/{block_scores_threads,peak_scores_threads,row_peaks}_test.cpp \
  src/kernels/window_scores/cpu/window_scores_threads_test.cpp; do
  compile "$source" $plain $warnings -Itests -I"$googletest/include"
done
for source in "$googletest/src/gtest-all.cc" "$googletest/src/gtest_main.cc"; do
  compile "$source" $plain -I"$googletest/include" -I"$googletest"
done
"$cxx" -static-libstdc++ -static-libgcc "${objects[@]}" -o "$build/kernels_test" -pthread
"$qemu" -cpu max -L "/usr/$target-linux-gnu" "$build/kernels_test" --gtest_brief=1 --gtest_filter="$filter"
