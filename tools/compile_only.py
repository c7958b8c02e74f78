#!/usr/bin/env python3
"""Compiles files of a configured build folder, some at a time, and links nothing: what shows in minutes that code for a
machine that is not here compiles.

usage: compile_only.py BUILD JOBS PATTERN   (of the object files; what a failed one printed is shown, and the exit code 1)
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys


def compile_one(entry):
    os.makedirs(os.path.dirname(os.path.join(entry["directory"], entry["output"])), exist_ok=True)
    done = subprocess.run(entry["command"], shell=True, cwd=entry["directory"], text=True, stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
    return entry["file"], done.returncode, done.stdout


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    build, jobs, pattern = sys.argv[1:]
    with open(os.path.join(build, "compile_commands.json")) as file:
        entries = json.load(file)
    for entry in entries:  # CMake names it apart since 3.20 for some generators only
        entry.setdefault("output", re.search(r" -o (\S+)", entry["command"]).group(1))
    wanted = [entry for entry in entries if re.search(pattern, entry["output"])]
    if not wanted:
        sys.exit(f"{build}: nothing to compile matches {pattern}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        for name, code, output in pool.map(compile_one, wanted):
            failed += code != 0
            if output.strip():
                print(f"{os.path.relpath(name)}:\n{output}", flush=True)
    print(f"{len(wanted)} files compiled, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
