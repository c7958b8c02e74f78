#!/usr/bin/env python3
"""Builds the wheel against the library of BUILD, installs it into an empty virtual environment and runs module_test.py
there, away from the checkout. Usage: wheel_test.py SOURCE BUILD"""

import pathlib
import subprocess
import sys
import tempfile
import venv

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def run(*command, **options):
    subprocess.run([str(word) for word in command], check=True, **options)


with tempfile.TemporaryDirectory(prefix="ei_wheel_") as name:
    folder = pathlib.Path(name)
    run("cmake", "--install", BUILD, "--prefix", folder / "prefix", "--component", "library")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder / "wheels", "-C",
        f"cmake.define.EI_INSTALLED={folder / 'prefix'}", "-C", f"build-dir={folder / 'build'}", SOURCE)
    wheel = next((folder / "wheels").glob("entropyinfer-*.whl"))
    (folder / "prefix").rename(folder / "gone")  # all it needs is inside
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[plot]", "mypy")
    run(python, SOURCE / "tests" / "python" / "module_test.py", SOURCE, cwd=folder)
