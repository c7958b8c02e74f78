#!/usr/bin/env python3
"""Runs llama-server's own tests, out of the pinned tree and unchanged, against `entropyinfer serve`.

Usage: run.py --program BIN --model FILE --tree DIR [pytest arguments]
  --program  build/release/bin/entropyinfer
  --model    stories260K.gguf, the model that its expectations are made for
  --tree     the pinned llama.cpp tree (tools/deps.sh tree prints it)
Needs the packages of requirements.txt. Leaves out what not_applicable.txt names, with the reason.
"""
import argparse
import os
import pathlib
import sys

FILES = ["basic", "completion", "chat_completion", "tokenize", "template", "security", "metrics", "ctx_shift",
         "ignore_eos", "slot_save", "tool_call", "compat_anthropic", "compat_oai_responses"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tree", required=True)
    options, rest = parser.parse_known_args()
    here = pathlib.Path(__file__).resolve().parent
    tests = pathlib.Path(options.tree).resolve() / "tools/server/tests"
    environment = dict(os.environ,
                       EI_COMPAT_BIN=str(pathlib.Path(options.program).resolve()),
                       EI_COMPAT_MODEL=str(pathlib.Path(options.model).resolve()),
                       LLAMA_SERVER_BIN_PATH=str(here / "llama_server.py"),
                       PYTHONDONTWRITEBYTECODE="1",  # nothing is written into the tree
                       PYTHONPATH=f"{tests}:{here}")
    chosen = [word for word in rest if word.startswith("unit/")]
    files = chosen or [f"unit/test_{name}.py" for name in FILES]
    flags = [word for word in rest if word not in chosen]
    command = [sys.executable, "-m", "pytest", "--noconftest", "-p", "compat_plugin", "-p", "no:cacheprovider",
               "-c", os.devnull, "--rootdir", str(tests), *flags, *files]
    os.chdir(tests)  # its paths to templates begin here
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
