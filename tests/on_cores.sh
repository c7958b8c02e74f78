#!/bin/sh
# on_cores.sh COUNT PROGRAM ARGUMENT...: runs a test on COUNT neighbouring cores that no other test holds, or, when none are
# free, wherever the system likes. Engines take all cores they may use and their threads wait by spinning: two tests side by
# side, each on both of two cores, take twice as long as on a core each.
count=$1
shift
first=0
while [ $((first + count)) -le "$(nproc)" ]; do
  last=$((first + count - 1))
  # The program inherits the descriptor, and with it the lock, for as long as it or a child of it lives.
  if exec 9>"${TMPDIR:-/tmp}/ei-tests-$(id -u)-cores-$first-$count" && flock -n 9; then
    if taskset -c "$first-$last" true; then exec taskset -c "$first-$last" "$@"; fi
  fi 2>/dev/null
  first=$((first + count))
done
exec "$@"
