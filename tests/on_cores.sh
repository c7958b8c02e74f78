#!/bin/sh
# on_cores.sh COUNT PROGRAM ARGUMENT...: runs a test on COUNT neighbouring cores that no other test holds, or, when none are
# free, wherever the system likes. Engines take all cores they may use and their threads wait by spinning: two tests side by
# side, each on both of two cores, take twice as long as on a core each.
count=$1
shift
first=0
while [ $((first + count)) -le "$(nproc)" ]; do
  cores=$first-$((first + count - 1))
  lock=${TMPDIR:-/tmp}/ei-tests-$(id -u)-cores-$cores
  # The program inherits the descriptor, and with it the lock, for as long as it or a child of it lives.
  if touch "$lock" 2>/dev/null && exec 9>"$lock" && flock -n 9 && taskset -c "$cores" true 2>/dev/null; then
    exec taskset -c "$cores" "$@"
  fi
  first=$((first + count))
done
exec "$@"
