"""A server of ours on a port of its own, for the tests that talk to it from outside."""

import re
import subprocess
import urllib.request


def cancelled(url):
    """How many requests ended because their client had gone; the server needs --metrics."""
    text = urllib.request.urlopen(url + "/metrics", timeout=60).read().decode()
    return int(re.search(r"^entropyinfer:requests_cancelled_total (\d+)$", text, re.M).group(1))


class Server:
    def __init__(self, program, *flags):
        self.process = subprocess.Popen([program, "serve", "--port", "0", "--temp", "0", *flags],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on (https?://\S+)", line)
            if found:
                self.url = found.group(1)
                return
        raise RuntimeError("the server did not start")

    def close(self):
        self.process.terminate()
        self.process.wait()
