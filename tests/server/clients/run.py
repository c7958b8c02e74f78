#!/usr/bin/env python3
"""Other people's clients against a server of the test's own: the openai package, and lm-evaluation-harness.

Usage: run.py --program BIN --work DIR [openai|lm_eval]
Runs the clients in the virtual environment DIR, which `packages.py DIR clients/requirements.txt` makes; without it they are
skipped (77). With --inside they run in the Python that is there.
"""
import argparse
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import packages  # noqa: E402
from running_server import Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = ("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
            "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
            "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--work")
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("clients", nargs="*", default=["openai", "lm_eval"])
    options = parser.parse_args()
    if not options.inside:
        python = packages.find(pathlib.Path(options.work), ["-r", HERE / "requirements.txt"])
        return subprocess.run([python, __file__, "--inside", "--program", options.program, *options.clients]).returncode
    server = Server(options.program, "--chat-template", TEMPLATE, "--metrics")
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
