#!/usr/bin/env python3
"""The proxies of examples/fleet and of docs/serving.md in front of real servers: streams come in pieces, a worker that is
stopped or killed under load costs no answer. Usage: proxies.py PROGRAM. Skipped (77) without nginx and haproxy."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

from fleet import EXAMPLES, fetch, free_ports, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from packages import skip  # noqa: E402

PAGE = EXAMPLES.parents[1] / "docs/serving.md"
BODY = {"prompt": "The key is 7. The key is", "max_tokens": 24, "temperature": 0, "ignore_eos": True}


class Worker:
    def __init__(self, program, port):
        self.command = [program, "serve", "--port", str(port), "-np", "4"]
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        until(lambda: fetch(self.url + "/health"))

    def stop(self, how):
        how(self.process)
        return self.process.wait(60)


def streams(url, context=None):
    request = urllib.request.Request(url + "/v1/completions", b'{"prompt":"a","max_tokens":300,"stream":true,"ignore_eos":true}')
    begin = time.monotonic()
    times = []
    with urllib.request.urlopen(request, timeout=120, context=context) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                times.append(time.monotonic() - begin)
                last = line
    assert last.strip() == b"data: [DONE]" and len(times) > 100
    assert times[0] < 0.7 * times[-1], "it came at once, not in pieces"


def survives(proxy, workers, how, leaves):
    expected = fetch(workers[0].url + "/v1/completions", BODY)["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(fetch, proxy + "/v1/completions", BODY) for _ in range(45)]
        until(lambda: sum(one.done() for one in asked) >= 9)
        assert workers[1].stop(how) == leaves
        left = sum(not one.done() for one in asked)
        answers = [one.result()["choices"][0]["text"] for one in asked]
    assert answers == [expected] * len(asked)
    workers[1].start()
    return left


def check(name, command, port, workers):
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: fetch(url + "/health"))
        streams(url)
        left = survives(url, workers, lambda process: process.terminate(), 0)
        time.sleep(6)  # it is asked again
        left += survives(url, workers, lambda process: process.kill(), -9)
        print(f"{name}: 90 of 90 requests answered, {left} of them behind a SIGTERM and a SIGKILL")
    finally:
        running.terminate()
        running.wait()


def of_the_page(folder, port, worker):
    """The example with TLS of docs/serving.md."""
    block = next(found for found in re.findall(r"^```\n(server \{.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M))
    cert, key = folder / "server.crt", folder / "server.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    for old, new in (("listen 443", f"listen 127.0.0.1:{port}"), ("/etc/ssl/server.crt", str(cert)),
                     ("/etc/ssl/server.key", str(key)), ("http://127.0.0.1:8080", worker.url)):
        assert old in block, old
        block = block.replace(old, new)
    head = (EXAMPLES / "nginx.conf").read_text(encoding="utf-8").split("  map ")[0]
    (folder / "page.conf").write_text(head + block + "}\n")
    running = subprocess.Popen(["nginx", "-p", folder, "-c", "page.conf"], stderr=subprocess.DEVNULL)
    context = ssl.create_default_context(cafile=cert)
    try:
        url = f"https://127.0.0.1:{port}"
        until(lambda: urllib.request.urlopen(url + "/health", context=context).status == 200)
        streams(url, context)
        print("nginx with TLS, as the page has it: ok")
    finally:
        running.terminate()
        running.wait()


def main():
    if not shutil.which("nginx") or not shutil.which("haproxy"):
        skip("no nginx or no haproxy here")
    port = free_ports(4)
    workers = [Worker(sys.argv[1], port + 1), Worker(sys.argv[1], port + 2)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.chmod(folder, 0o755)
        for file in ("nginx.conf", "haproxy.cfg"):
            text = (EXAMPLES / file).read_text(encoding="utf-8")
            for i in range(3):
                text = text.replace(f"127.0.0.1:{8080 + i}", f"127.0.0.1:{port + i}")
            (folder / file).write_text(text)
        try:
            check("nginx", ["nginx", "-p", folder, "-c", "nginx.conf"], port, workers)
            check("haproxy", ["haproxy", "-f", folder / "haproxy.cfg"], port, workers)
            of_the_page(folder, port, workers[0])
        finally:
            for worker in workers:
                worker.stop(lambda process: process.terminate())
    return 0


if __name__ == "__main__":
    sys.exit(main())
