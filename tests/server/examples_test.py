#!/usr/bin/env python3
"""The curl commands of docs/serving.md do what they say. Usage: examples_test.py PROGRAM PAGE. Needs curl (77: skipped)."""
import re
import shutil
import subprocess
import sys

from packages import skip


def commands(page):
    for block in re.findall(r"^```\n(.*?)^```", page, re.S | re.M):
        for command in re.split(r"^(?=curl )", block, flags=re.M):
            if command.startswith("curl "):
                yield command.strip()


def main():
    program, page = sys.argv[1:]
    if not shutil.which("curl"):
        skip("no curl here")
    server = subprocess.Popen([program, "serve", "--port", "0", "--metrics"], stderr=subprocess.PIPE, text=True)
    try:
        url = next(found.group(1) for found in (re.search(r"listening on (http://\S+)", line) for line in server.stderr) if found)
        done = 0
        for command in commands(open(page, encoding="utf-8").read()):
            words = command.replace("http://127.0.0.1:8080", url).replace("curl ", "curl -sS --fail-with-body ", 1)
            run = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=120)
            assert run.returncode == 0 and run.stdout, (command, run.stdout, run.stderr)
            done += 1
        assert done >= 15, "the page has lost its examples"
        print(done, "examples ok")
    finally:
        server.terminate()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
