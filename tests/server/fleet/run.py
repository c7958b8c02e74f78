#!/usr/bin/env python3
"""Two workers behind a router of others, as examples/fleet starts them. Usage: run.py --program BIN --work DIR smg|dynamo
Makes a virtual environment in DIR with the router (from the network, once) and runs the test in it."""
import argparse
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[2] / "examples/fleet"


def environment(folder, router):
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True)
        install = [folder / "bin/python", "-m", "pip", "install", "-q"]
        more = ["--no-deps"] if router == "dynamo" else []
        subprocess.run([*install, *more, "-r", EXAMPLES / f"requirements-{router}.txt"], check=True)
        if router == "dynamo":
            subprocess.run([*install, "pydantic<=2.13.5"], check=True)
        done.touch()
    return folder / "bin"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("router", choices=["smg", "dynamo"])
    options = parser.parse_args()
    tools = environment(pathlib.Path(options.work) / options.router, options.router)
    return subprocess.run([tools / "python", HERE / f"{options.router}_fleet.py", options.program],
                          env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}).returncode


if __name__ == "__main__":
    sys.exit(main())
