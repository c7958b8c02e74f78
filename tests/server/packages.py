#!/usr/bin/env python3
"""Virtual environments with the packages that a test of the server needs, made once and anew when the list changes.

Usage: packages.py DIR REQUIREMENTS
Without a network, or a python3 with venv and pip, it says so in a line and ends with 77, and the tests that need it do too.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

LIMIT_S = 900  # a registry that answers slowly


def skip(why):
    """Ends a test that cannot run here. Where EI_REQUIRE_CLIENTS is set (CI) that is a failure, or nobody would see it."""
    print("skipped:", why, flush=True)
    sys.exit(1 if os.environ.get("EI_REQUIRE_CLIENTS") else 77)


def state(installs):
    """What `installed` says in an environment that these pip arguments have made: files by what they hold."""
    words = [str(word) for words in installs for word in words]
    known = [pathlib.Path(word).read_text(encoding="utf-8") if os.path.isfile(word) else word for word in words]
    return hashlib.sha256(repr((sys.version, known)).encode()).hexdigest()


def is_made(folder, installs):
    done = folder / "installed"
    return done.exists() and done.read_text() == state(installs)


def make(folder, *installs):
    """The interpreter of the environment in `folder`; `installs` are arguments of `pip install`, one after the other."""
    folder = folder.absolute()
    if not is_made(folder, installs):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            venv.create(folder, with_pip=True)
            for words in installs:
                subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", "--retries", "2", *words], check=True,
                               text=True, stderr=subprocess.PIPE, timeout=LIMIT_S)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            skip(f"the packages could not be installed: {said[-1] if said else error}")
        (folder / "installed").write_text(state(installs))
    return folder / "bin/python"


def find(folder, *installs):
    """The same where it has been made; ends the test where not."""
    folder = folder.absolute()
    if not is_made(folder, installs):
        skip(f"no packages in {folder.name} (tests/server/packages.py makes it)")
    return folder / "bin/python"


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]), ["-r", pathlib.Path(sys.argv[2]).absolute()])
