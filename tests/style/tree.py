"""Which files the style checks read: everything in the checkout that git does not ignore."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
SOURCE_SUFFIXES = (".cpp", ".h", ".cu", ".cuh")


def list_paths(root):
    """Tracked paths and new ones that are not ignored; outside of git, everything but build products."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    if done.returncode == 0:
        return [root / line for line in done.stdout.splitlines()]
    outside = ("build", ".deps", "models", ".git")
    return [path for path in root.rglob("*") if path.relative_to(root).parts[0] not in outside]


def list_files(root=ROOT):
    return sorted(path for path in list_paths(root) if not path.is_symlink() and path.is_file())


def list_links(root=ROOT):
    return sorted(path for path in list_paths(root) if path.is_symlink())


def list_sources(root=ROOT):
    return [path for path in list_files(root) if path.suffix in SOURCE_SUFFIXES]


def report(name, checked, problems):
    """Prints the problems, one a line, and ends the process with what ctest expects."""
    for problem in problems:
        print(problem)
    print(f"{name}: {checked} files, {len(problems)} problems")
    sys.exit(1 if problems else 0)
