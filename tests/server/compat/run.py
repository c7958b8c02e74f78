#!/usr/bin/env python3
"""Runs llama-server's own tests, out of the pinned tree and unchanged, against `entropyinfer serve`.

Usage: run.py --program BIN [--tree DIR] [--model FILE] [--work DIR] [pytest arguments]
  --program  build/release/bin/entropyinfer
  --tree     the pinned llama.cpp tree; without it the one that `tools/deps.sh tree` prints
  --model    stories260K.gguf, the model that its expectations are made for; without it the one in EI_MODELS_DIR, in
             models/ or beside the checkout in shared/models; exit code 77 where there is none
  --work     makes a virtual environment there with the packages of requirements.txt (from the network, once);
             without it they must be there
Leaves out what not_applicable.txt names, with the reason.
"""
import argparse
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from packages import python_with  # noqa: E402

FILES = ["basic", "completion", "chat_completion", "tokenize", "template", "security", "metrics", "ctx_shift",
         "ignore_eos", "slot_save", "tool_call", "compat_anthropic", "compat_oai_responses"]


HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MISSING = 77


def find_model():
    folders = [pathlib.Path(os.environ.get("EI_MODELS_DIR") or ROOT / "models"), ROOT.parent / "shared/models"]
    found = [folder / "stories260K.gguf" for folder in folders if (folder / "stories260K.gguf").exists()]
    return found[0] if found else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--tree")
    parser.add_argument("--model", type=pathlib.Path, default=find_model())
    parser.add_argument("--work", type=pathlib.Path)
    options, rest = parser.parse_known_args()
    if options.model is None:
        print("compat: no stories260K.gguf in EI_MODELS_DIR; give --model", file=sys.stderr)
        return MISSING
    python = str(python_with(options.work.absolute(), HERE / "requirements.txt")) if options.work else sys.executable
    tree = options.tree or subprocess.run([ROOT / "tools/deps.sh", "tree"], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout.strip()
    tests = pathlib.Path(tree).resolve() / "tools/server/tests"
    environment = dict(os.environ,
                       EI_COMPAT_BIN=str(pathlib.Path(options.program).resolve()),
                       EI_COMPAT_MODEL=str(options.model.resolve()),
                       LLAMA_SERVER_BIN_PATH=str(HERE / "llama_server.py"),
                       PYTHONDONTWRITEBYTECODE="1",  # nothing is written into the tree
                       PYTHONPATH=f"{tests}:{HERE}")
    chosen = [word for word in rest if word.startswith("unit/")]
    files = chosen or [f"unit/test_{name}.py" for name in FILES]
    flags = [word for word in rest if word not in chosen]
    command = [python, "-m", "pytest", "--noconftest", "-p", "compat_plugin", "-p", "no:cacheprovider",
               "-c", os.devnull, "--rootdir", str(tests), *flags, *files]
    os.chdir(tests)  # its paths to templates begin here
    os.execve(python, command, environment)


if __name__ == "__main__":
    sys.exit(main())
