#!/usr/bin/env bash
# Runs every libFuzzer program of a build. Usage: tools/fuzz.sh BUILD_DIR SECONDS
# Programs are BUILD_DIR/bin/fuzz_*; seeds come from tests/fuzz/corpus/<program> where that folder exists; what the
# run finds stays in BUILD_DIR/corpus, crashes in BUILD_DIR/crashes.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:?usage: tools/fuzz.sh BUILD_DIR SECONDS}
seconds=${2:?usage: tools/fuzz.sh BUILD_DIR SECONDS}

# libllama is not instrumented, so containers that it fills must not be watched for overflow.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_container_overflow=0}

shopt -s nullglob
programs=("$build"/bin/fuzz_*)
[ ${#programs[@]} -gt 0 ] || { echo "fuzz: no program $build/bin/fuzz_*" >&2; exit 1; }
mkdir -p "$build/crashes"
for program in "${programs[@]}"; do
  name=$(basename "$program")
  corpus=$build/corpus/$name
  mkdir -p "$corpus"
  folders=("$corpus")
  [ -d "$root/tests/fuzz/corpus/$name" ] && folders+=("$root/tests/fuzz/corpus/$name")
  echo "fuzz: $name for $seconds s" >&2
  "$program" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$build/crashes/$name-" "${folders[@]}"
done
