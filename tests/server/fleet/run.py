#!/usr/bin/env python3
"""Two workers behind a router of others, as examples/fleet starts them. Usage: run.py --program BIN --work DIR smg|dynamo
Makes a virtual environment in DIR with the router (from the network, once) and runs the test in it."""
import argparse
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import packages  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[2] / "examples/fleet"


def environment(folder, router):
    wanted = ["-r", EXAMPLES / f"requirements-{router}.txt"]
    if router == "dynamo":
        return packages.make(folder, ["--no-deps", *wanted], ["pydantic<=2.13.5"]).parent
    return packages.make(folder, wanted).parent


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
