#!/usr/bin/env bash
# Keeps COUNT cores busy while a command runs, as other programs of a user's machine do. Usage: tools/busy.sh COUNT COMMAND...
# The exit code is the command's. Example: tools/busy.sh 2 make check
set -euo pipefail
count=${1:-}
[[ $count =~ ^[1-9][0-9]*$ ]] && [ $# -ge 2 ] || { echo "busy: usage: tools/busy.sh COUNT COMMAND..." >&2; exit 2; }
shift
busy=()
trap 'kill "${busy[@]}" 2>/dev/null; wait "${busy[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < count; ++i)); do
  (trap - EXIT; while :; do :; done) &
  busy+=($!)
done
"$@"
