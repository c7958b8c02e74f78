#!/usr/bin/env python3
"""Other people's clients against a server of the test's own: the openai package, and lm-evaluation-harness.

Usage: run.py --program BIN --work DIR [openai|lm_eval]
Makes a virtual environment in DIR with the packages of requirements.txt (from the network, once) and runs the clients in
it. With --inside they run in the Python that is there.
"""
import argparse
import pathlib
import subprocess
import sys
import venv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from running_server import Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = ("{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
            "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")


def environment(folder):
    python = folder / "bin/python"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
        done.touch()
    return python


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--work")
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("clients", nargs="*", default=["openai", "lm_eval"])
    options = parser.parse_args()
    if not options.inside:
        python = environment(pathlib.Path(options.work))
        return subprocess.run([python, __file__, "--inside", "--program", options.program, *options.clients]).returncode
    server = Server(options.program, "--chat-template", TEMPLATE)
    try:
        if "openai" in options.clients:
            import openai_client
            openai_client.run(server.url)
        if "lm_eval" in options.clients:
            import lm_eval_client
            lm_eval_client.run(server.url)
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
