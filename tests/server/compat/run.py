#!/usr/bin/env python3
"""Runs llama-server's own tests, out of the pinned tree and unchanged, against `entropyinfer serve`.

Usage: run.py --program BIN [--tree DIR] [--model FILE] [--work DIR] [--part NAME] [pytest arguments]
  --program  build/release/bin/entropyinfer
  --tree     the pinned llama.cpp tree; without it the one that `tools/deps.sh tree` prints
  --model    stories260K.gguf, the model that its expectations are made for; without it the one in EI_MODELS_DIR, in
             models/ or beside the checkout in shared/models; exit code 77 where there is none
  --work     the virtual environment with pytest and the clients, which `packages.py DIR clients/requirements.txt` makes
             (77 where there is none); without it they must be in the Python that is there
  --part     one of the parts below instead of all files
Leaves out what not_applicable.txt names, with the reason.
"""
import argparse
import os
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import packages  # noqa: E402

# Parts take about the same time: ctest runs them side by side.
PARTS = {"chat": ["chat_completion", "tool_call", "compat_anthropic"],
         "texts": ["basic", "completion", "tokenize", "template", "security", "metrics", "ctx_shift", "ignore_eos", "slot_save",
                   "compat_oai_responses"]}

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
REQUIREMENTS = HERE.parent / "clients/requirements.txt"


def find_model():
    folders = [pathlib.Path(os.environ.get("EI_MODELS_DIR") or ROOT / "models"), ROOT.parent / "shared/models"]
    found = [folder / "stories260K.gguf" for folder in folders if (folder / "stories260K.gguf").exists()]
    return found[0] if found else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--tree")
    parser.add_argument("--model", type=pathlib.Path, default=find_model())
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--part", choices=PARTS)
    options, rest = parser.parse_known_args()
    if options.model is None:
        packages.skip("no stories260K.gguf in EI_MODELS_DIR; give --model")
    python = str(packages.find(options.work, ["-r", REQUIREMENTS])) if options.work else sys.executable
    tree = options.tree or subprocess.run([ROOT / "tools/deps.sh", "tree"], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout.strip()
    tests = pathlib.Path(tree).resolve() / "tools/server/tests"
    environment = dict(os.environ,
                       EI_COMPAT_BIN=str(pathlib.Path(options.program).resolve()),
                       EI_COMPAT_MODEL=str(options.model.resolve()),
                       LLAMA_SERVER_BIN_PATH=str(HERE / "llama_server.py"),
                       PORT=str(free_port()),  # of 8080 another server may answer
                       PYTHONDONTWRITEBYTECODE="1",  # nothing is written into the tree
                       PYTHONPATH=f"{tests}:{HERE}")
    chosen = [word for word in rest if word.startswith("unit/")]
    parts = [options.part] if options.part else PARTS
    files = chosen or [f"unit/test_{name}.py" for part in parts for name in PARTS[part]]
    flags = [word for word in rest if word not in chosen]
    command = [python, "-m", "pytest", "--noconftest", "-p", "compat_plugin", "-p", "no:cacheprovider",
               "-c", os.devnull, "--rootdir", str(tests), *flags, *files]
    os.chdir(tests)  # its paths to templates begin here
    os.execve(python, command, environment)


if __name__ == "__main__":
    sys.exit(main())
