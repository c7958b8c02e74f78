"""What the tests of fleets share: an example that runs, and requests to it."""
import json
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples/fleet"


def free_ports(count):
    """The first of `count` neighbours that are free."""
    for first in range(20000, 60000, 100):
        try:
            for port in range(first, first + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")


def fetch(url, body=None, timeout=120):
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read())


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := what():
                return found
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("it did not come")


class Example:
    """A script of examples/fleet; `workers` are what it printed of them: (pid, url)."""

    def __init__(self, script, program, *flags, env):
        self.process = subprocess.Popen([EXAMPLES / script, program, *flags], stdout=subprocess.PIPE, text=True, env=env)
        self.workers = []
        for line in self.process.stdout:
            if found := re.match(r"worker \d: pid (\d+) (\S+)", line):
                self.workers.append((int(found.group(1)), found.group(2)))
            if line.startswith("router:"):
                self.url = line.split()[1]
                return
        raise RuntimeError(f"{script} did not start")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
