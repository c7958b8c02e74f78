#!/usr/bin/env python3
"""/metrics as Prometheus takes it: promtool reads it, and a Prometheus of the test's own scrapes a server that works and
answers questions about it. Usage: prometheus.py PROGRAM. Needs Debian's prometheus (77: skipped)."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from fleet import free_ports, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from packages import skip  # noqa: E402
from running_server import Server  # noqa: E402

# Who reads these names chose them: promtool would have no colon, and _total behind counters.
OTHERS = re.compile(r"^(llamacpp|vllm|entropyinfer):\S+ (metric names should not contain ':'|"
                    r"counter metrics should have \"_total\" suffix)$")


KEY = "secret"


def fetch(url, body=None):
    asked = urllib.request.Request(url, json.dumps(body).encode() if body else None, {"Authorization": "Bearer " + KEY})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return answer.read().decode()


def check_text(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if not OTHERS.match(line)]
    assert not complaints and done.returncode in (0, 3), complaints


def ask(base, query):
    answer = json.loads(fetch(f"{base}/api/v1/query?" + urllib.parse.urlencode({"query": query})))
    return [float(row["value"][1]) for row in answer["data"]["result"]]


def scrape(server, folder):
    port = free_ports(1)
    pathlib.Path(folder, "key").write_text(KEY + "\n", encoding="utf-8")
    target = server.url.split("//")[1]
    with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as file:
        file.write("scrape_configs:\n- job_name: ei\n  scrape_interval: 1s\n  scrape_timeout: 1s\n"
                   f"  authorization: {{credentials_file: {folder}/key}}\n"
                   f"  static_configs: [{{targets: ['{target}']}}]\n")
    subprocess.run(["promtool", "check", "config", file.name], check=True, capture_output=True)
    prometheus = subprocess.Popen(["prometheus", f"--config.file={file.name}", f"--storage.tsdb.path={folder}/data",
                                   f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        until(lambda: ask(base, 'up{job="ei"}') == [1.0])
        asked = 0
        for turn in range(12):
            fetch(server.url + "/completion", {"prompt": f"The key is {turn}.", "n_predict": 20, "ignore_eos": True})
            asked += 1
            time.sleep(0.3)
        until(lambda: ask(base, "entropyinfer:requests_total") == [float(asked)])
        assert ask(base, "llamacpp:tokens_predicted_total") == [20.0 * asked]
        for name in ("time_to_first_token", "inter_token_latency", "e2e_request_latency"):
            quantile = ask(base, f"histogram_quantile(0.95, sum by (le) (rate(vllm:{name}_seconds_bucket[1m])))")
            assert len(quantile) == 1 and 0 < quantile[0] < 60, (name, quantile)
        assert ask(base, "vllm:num_requests_running") == [0.0]
        assert ask(base, "scrape_samples_scraped")[0] > 100
    finally:
        prometheus.terminate()
        prometheus.wait()


def main():
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        skip("no prometheus here")
    server = Server(sys.argv[1], "--metrics", "--alias", 'a "name"')
    try:
        fetch(server.url + "/completion", {"prompt": "river " * 2500, "n_predict": 4, "method": "entropyinfer"})
        check_text(fetch(server.url + "/metrics"))
    finally:
        server.close()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(sys.argv[1], "--metrics", "--api-key", KEY)
        try:
            scrape(server, folder)
        finally:
            server.close()
    print("prometheus ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
