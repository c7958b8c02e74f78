#!/usr/bin/env bash
# Two workers behind smg, which sends prompts that begin alike to the worker that has read their beginning, and asks the
# other one when a worker dies. Usage: smg.sh [PROGRAM [flags of serve]]. The router listens on FLEET_PORT (8080), the
# workers on the ports behind it. smg: pip install -r requirements-smg.txt.
set -euo pipefail
program=${1:-entropyinfer}
shift || true
port=${FLEET_PORT:-8080}
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
trap 'exit 0' TERM INT

workers=()
for i in 1 2; do
  "$program" serve --port $((port + i)) --metrics "$@" &
  echo "worker $i: pid $! http://127.0.0.1:$((port + i))"
  workers+=("http://127.0.0.1:$((port + i))")
done
smg launch --host 127.0.0.1 --port "$port" --worker-urls "${workers[@]}" --policy cache_aware \
  --health-check-interval-secs 2 --health-failure-threshold 1 --health-success-threshold 1 \
  --cb-timeout-duration-secs 5 --prometheus-port $((port + 9)) --log-level warn &
echo "router: http://127.0.0.1:$port"
wait $!
