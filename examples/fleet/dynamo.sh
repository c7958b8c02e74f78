#!/usr/bin/env bash
# Two workers for a router of NVIDIA Dynamo that knows which prefixes each of them holds. Usage: dynamo.sh [PROGRAM [flags
# of serve]]. The servers listen on the two ports behind FLEET_PORT (8080), their events on the next two. Routers find
# them in the folder DYN_FILE_KV. Dynamo: pip install --no-deps -r requirements-dynamo.txt.
set -euo pipefail
program=${1:-entropyinfer}
shift || true
port=${FLEET_PORT:-8080}
export DYN_FILE_KV=${DYN_FILE_KV:-${TMPDIR:-/tmp}/dynamo_store_kv} DYN_TCP_RPC_HOST=127.0.0.1 DYN_LOG=${DYN_LOG:-warn}
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
trap 'exit 0' TERM INT

for i in 1 2; do
  "$program" serve --port $((port + i)) --kv-events "tcp://127.0.0.1:$((port + i + 2))" --metrics "$@" &
  echo "worker $i: pid $! http://127.0.0.1:$((port + i))"
  python3 "$(dirname "$0")/dynamo_worker.py" "http://127.0.0.1:$((port + i))" "tcp://127.0.0.1:$((port + i + 2))" &
done
echo "router: by files in $DYN_FILE_KV"
wait
