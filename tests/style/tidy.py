#!/usr/bin/env python3
"""clang-tidy over our sources with the checks of .clang-tidy. Usage: tests/style/tidy.py --build DIR [--all]

The default run (ctest) covers src/ without its tests, which is what ships and stays under two or three minutes on two
cores; --all (make lint) adds tests, benchmarks and tools. A file that passed is not read again until it, a header, the
checks or its compile command change.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import tree

TOOL = "clang-tidy-14"


def read_commands(build, everything):
    """{source: compile command} of our own files in compile_commands.json."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if not path.is_relative_to(tree.ROOT) or path.is_relative_to(build):
            continue
        ships = path.is_relative_to(tree.ROOT / "src") and not path.name.endswith("_test.cpp")
        if path.exists() and (everything or ships):
            commands[path] = entry["command"]
    return commands


def hash_of(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def check_file(tool, build, path):
    done = subprocess.run([tool, "-p", build, "--quiet", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text = done.stdout + (done.stderr if done.returncode != 0 else "")
    lines = [line for line in text.replace(f"{tree.ROOT}/", "").splitlines() if ": error:" in line or ": warning:" in line]
    if done.returncode != 0 and not lines:
        lines = [f"{path.relative_to(tree.ROOT)}: {text.strip()}"]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a configured build folder")
    parser.add_argument("--all", action="store_true", help="also tests, benchmarks and tools")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    tool = shutil.which(TOOL)
    if not tool:
        print(f"tidy: {TOOL} is not installed")
        sys.exit(tree.SKIPPED)
    build = args.build.resolve()
    headers = b"".join(path.read_bytes() for path in tree.list_sources() if path.suffix == ".h")
    common = hash_of(headers, (tree.ROOT / ".clang-tidy").read_bytes())
    passed_dir = build / "tidy"
    passed_dir.mkdir(exist_ok=True)

    def run(item):
        path, command = item
        stamp = passed_dir / hash_of(common, path.read_bytes(), str(path), command)
        if stamp.exists():
            return []
        problems = check_file(tool, build, path)
        if not problems:
            stamp.touch()
        return problems

    commands = read_commands(build, args.all)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        problems = [line for lines in pool.map(run, sorted(commands.items())) for line in lines]
    tree.report("tidy", len(commands), sorted(set(problems)))


if __name__ == "__main__":
    main()
