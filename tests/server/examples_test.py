#!/usr/bin/env python3
"""The curl commands of docs/serving.md do what they say. Usage: examples_test.py PROGRAM PAGE. Needs curl (77: skipped)."""
import json
import re
import shutil
import subprocess
import sys
import tempfile

from packages import skip
from running_server import Server

# What an answer has, by path.
MEMBERS = {
    "/v1/chat/completions": "choices",
    "/completion": "content",
    "/v1/completions": "choices",
    "/v1/messages": "content",
    "/v1/responses": "output",
    "/v1/messages/count_tokens": "input_tokens",
    "/v1/chat/completions/input_tokens": "input_tokens",
    "/texts": "id",
    "/tokenize": "tokens",
    "/detokenize": "content",
    "/apply-template": "prompt",
    "/tokenizer_info": "eos_token",
    "/v1/models": "data",
    "/props": "total_slots",
    "/version": "version",
    "/slots": "n_held",
    "/slots/0?action=save": "n_saved",
    "/slots/0?action=restore": "n_restored",
    "/slots/0?action=erase": "n_erased",
    "/health": "status",
}
METRIC = "entropyinfer:requests_total"


def commands(page):
    for block in re.findall(r"^```\n(.*?)^```", page, re.S | re.M):
        for command in re.split(r"^(?=curl )", block, flags=re.M):
            if command.startswith("curl "):
                yield command.strip()


def check(command, output):
    path = re.search(r"http://127\.0\.0\.1:8080([^\s']*)", command).group(1)
    if path == "/metrics":
        assert METRIC in output, output
        return path
    streamed = '"stream": true' in command
    if streamed:
        assert output.endswith("data: [DONE]\n\n"), output[-300:]
    answers = [line[6:] for line in output.split("\n") if line.startswith("data: {")] if streamed else [output]
    assert answers, output
    for answer in map(json.loads, answers):
        one = answer[0] if isinstance(answer, list) else answer
        assert MEMBERS[path] in one, (command, one)
    return path


def main():
    program, page = sys.argv[1:]
    if not shutil.which("curl"):
        skip("no curl here")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    tried = []
    with tempfile.TemporaryDirectory() as slots:
        server = Server(program, "--metrics", "--slot-save-path", slots)
        try:
            for command in commands(text):
                words = command.replace("http://127.0.0.1:8080", server.url)
                words = words.replace("curl ", "curl -sS --fail-with-body ", 1)
                run = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=120)
                assert run.returncode == 0 and run.stdout, (command, run.stdout, run.stderr)
                tried.append(check(command, run.stdout))
        finally:
            server.close()
    assert len(tried) == len(re.findall(r"^\s*curl ", text, re.M)), "an example stands where it is not found"
    missing = {*MEMBERS, "/metrics"} - set(tried)
    assert not missing, f"the page has lost its examples of {missing}"
    print(len(tried), "examples ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
