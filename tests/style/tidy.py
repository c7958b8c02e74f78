#!/usr/bin/env python3
"""clang-tidy over our sources with the checks of .clang-tidy. Usage: tests/style/tidy.py --build DIR [--all]

The default run (ctest) covers src/ without its tests, which is what ships; --all (make lint) adds tests, benchmarks and
tools. clang-tidy spends its time on other people's headers, so files that are compiled alike are checked together, as one
source that includes them; where that does not compile, because two of them use one name for two things, in halves. What passed is not read again until it, a header, the checks or the compile command change.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import tree

TOOL = "clang-tidy-14"
BATCH = 40


def read_commands(root, build, everything):
    """{source: compiler's arguments} of our own files in compile_commands.json."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])[1:]
        arguments = tuple(words[: words.index("-o")])  # then the object, -c and the source
        for path in compiled_sources(pathlib.Path(entry["directory"], entry["file"]).resolve(), build):
            if not path.is_relative_to(root) or path.is_relative_to(build) or not path.exists():
                continue
            ships = path.is_relative_to(root / "src") and not path.name.endswith("_test.cpp")
            if everything or ships:
                commands[path] = arguments
    return commands


def compiled_sources(path, build):
    """The source itself, or those that CMake compiles together through it."""
    if not (path.is_relative_to(build) and re.fullmatch(r"unity_\d+_cxx\.cxx", path.name) and path.exists()):
        return [path]
    return [pathlib.Path(name).resolve() for name in re.findall(r'^#include "(.+)"$', path.read_text(), re.MULTILINE)]


def make_batches(commands):
    """[(sources, arguments)]: sources that are compiled alike, BATCH at a time."""
    alike = {}
    for path, arguments in sorted(commands.items()):
        alike.setdefault(arguments, []).append(path)
    return [
        (paths[first : first + BATCH], arguments)
        for arguments, paths in alike.items()
        for first in range(0, len(paths), BATCH)
    ]


def hash_of(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def check_source(tidy, build, source, arguments):
    """What clang-tidy says of one source, line by line, and whether it compiled."""
    command = [*tidy, source, "--", *arguments]
    done = subprocess.run(command, cwd=build, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text = done.stdout + (done.stderr if done.returncode != 0 else "")
    lines = [line for line in text.splitlines() if ": error:" in line or ": warning:" in line]
    if done.returncode != 0 and not lines:
        lines = [f"{source}: {text.strip()}"]
    return lines, "[clang-diagnostic-error" not in text


def check_batch(tidy, build, paths, arguments, scratch):
    if len(paths) == 1:
        return check_source(tidy, build, paths[0], arguments)[0]
    scratch.write_text("".join(f'#include "{path}"\n' for path in paths))
    lines, compiled = check_source(tidy, build, scratch, arguments)
    scratch.unlink()
    if compiled:
        return lines
    half = len(paths) // 2
    return [
        line
        for part in (paths[:half], paths[half:])
        for line in check_batch(tidy, build, part, arguments, scratch)
    ]


def check(root, build, everything=False, jobs=os.cpu_count()):
    """How many sources there are, and the problems in them."""
    config = root / ".clang-tidy"
    ours = f"^{re.escape(str(root))}/(src|tests|bench|tools)/[^.]"  # sources of a batch are headers to clang-tidy
    tidy = [TOOL, "--quiet", f"--config-file={config}", f"--header-filter={ours}"]
    headers = [path.read_bytes() for path in tree.list_sources(root) if path.suffix == ".h"]
    common = hash_of(*headers, config.read_bytes())
    passed = build / "tidy"
    passed.mkdir(exist_ok=True)

    def run(batch):
        paths, arguments = batch
        key = hash_of(common, *arguments, *(part for path in paths for part in (str(path), path.read_bytes())))
        if (passed / key).exists():
            return []
        problems = check_batch(tidy, build, paths, arguments, passed / f"{key}.cpp")
        if not problems:
            (passed / key).touch()
        return [line.replace(f"{root}/", "") for line in problems]

    commands = read_commands(root, build, everything)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        problems = {line for lines in pool.map(run, make_batches(commands)) for line in lines}
    return len(commands), sorted(problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a configured build folder")
    parser.add_argument("--all", action="store_true", help="also tests, benchmarks and tools")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not shutil.which(TOOL):
        print(f"tidy: {TOOL} is not installed")
        sys.exit(tree.SKIPPED)
    tree.report("tidy", *check(tree.ROOT, args.build.resolve(), args.all, args.jobs))


if __name__ == "__main__":
    main()
