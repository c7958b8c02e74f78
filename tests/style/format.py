#!/usr/bin/env python3
"""Our C++ is formatted as .clang-format says. `--fix` formats it (make format).

Versions of clang-format disagree about details, so exactly one counts: 14, Debian 12's.
"""

import shutil
import subprocess
import sys

import tree

TOOL = "clang-format-14"


def main():
    tool = shutil.which(TOOL)
    if not tool:
        print(f"format: {TOOL} is not installed")
        sys.exit(tree.SKIPPED)
    files = tree.list_sources()
    mode = ["-i"] if sys.argv[1:] == ["--fix"] else ["--dry-run", "-Werror"]
    done = subprocess.run([tool, "--style=file", *mode, *files], cwd=tree.ROOT, stderr=subprocess.PIPE, text=True)
    problems = [line.replace(f"{tree.ROOT}/", "") for line in done.stderr.splitlines() if ": error:" in line]
    if done.returncode != 0 and not problems:
        problems = [done.stderr.strip()]
    tree.report("format", len(files), problems)


if __name__ == "__main__":
    main()
