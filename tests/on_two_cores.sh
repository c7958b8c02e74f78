#!/bin/sh
# on_two_cores.sh PROGRAM ARGUMENT...: runs a test on two cores of a larger machine, which two by chance. Engines take all
# cores they may use and their threads wait by spinning: many tests side by side, each on all cores, would take forever.
cores=$(nproc)
if [ "$cores" -gt 3 ]; then
  first=$(($$ % (cores / 2) * 2))
  pair=$first,$((first + 1))
  if taskset -c "$pair" true 2>/dev/null; then exec taskset -c "$pair" "$@"; fi
fi
exec "$@"
