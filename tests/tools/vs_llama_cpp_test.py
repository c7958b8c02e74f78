#!/usr/bin/env python3
"""bench/vs_llama_cpp with two fake programs: what it asks for, how it judges, what it refuses."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from model_work import ModelWork  # noqa: E402

FAKE = """#!{python}
import json, sys
words = sys.argv[1:]
flag = lambda name: int(words[words.index(name) + 1])
if "--peak" in words:
    print(json.dumps({{"fma_gflops": 100.0, "matrix_gflops": 400.0, "read_gbs": 20.0}}))
else:
    print(json.dumps({{"n_prompt": flag("-p"), "n_gen": flag("-n"), "n_depth": flag("-d"), "n_threads": flag("-t"),
                       "avg_ts": {speed}, "words": words, **{extra}}}))
"""


class VsLlamaCpp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.fake("llama-bench", 100.0)

    def fake(self, name, speed, extra=None):
        path = self.folder / name
        path.write_text(FAKE.format(python=shutil.which("python3"), speed=speed, extra=extra or {}))
        path.chmod(0o755)

    def compare(self, rows, *words):
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/vs_llama_cpp", "--rows", rows, "--threads", "2",
                               "--ours", self.folder / "entropyinfer", "--llama-bench", self.folder / "llama-bench",
                               "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    def test_passes_a_row_at_its_bar_and_fails_below(self):
        self.fake("entropyinfer", 300.0)
        for bars, code in (("other", 0), ("amx", 1)):  # 3x is enough without AMX only
            done, lines = self.compare("needle-pp16384", "--bars", bars, "--rounds", "2")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(lines[1]["ratio"], 3.0)
            self.assertEqual(lines[1]["rounds"], 2)
            self.assertEqual(lines[1]["pass"], code == 0)

    def test_reports_the_share_of_the_measured_peak(self):
        self.fake("entropyinfer", 1000.0)
        done, lines = self.compare("needle-pp16384,needle-tg128", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lines[0]["peak"]["matrix_gflops"], 400.0)
        work = ModelWork(ROOT / "assets/needle-14m-128k-q8_0.gguf")
        self.assertAlmostEqual(lines[1]["share_of_peak"], work.prompt_flops(16384) / 16384 * 1000 / 400e9)
        self.assertAlmostEqual(lines[2]["share_of_peak"], work.token_bytes(64) * 1000 / 20e9)

    def test_refuses_a_result_of_a_lossy_method(self):
        self.fake("entropyinfer", 900.0, {"method": "entropyinfer", "density": 0.2})
        done, _ = self.compare("needle-tg128", "--rounds", "1")
        self.assertIn("did not run full attention", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_refuses_a_result_of_other_work_than_asked(self):
        self.fake("entropyinfer", 900.0, {"n_prompt": 7})
        done, _ = self.compare("needle-tg128", "--rounds", "1")
        self.assertIn("n_prompt=7 instead of 0", done.stderr)

    def test_says_which_program_failed(self):
        (self.folder / "entropyinfer").write_text("#!/bin/sh\necho no such flag >&2\nexit 2\n")
        (self.folder / "entropyinfer").chmod(0o755)
        done, _ = self.compare("needle-tg128", "--rounds", "1")
        self.assertIn("failed with 2", done.stderr)
        self.assertIn("no such flag", done.stderr)


class Work(unittest.TestCase):
    def test_knows_the_shape_of_the_embedded_model(self):
        work = ModelWork(ROOT / "assets/needle-14m-128k-q8_0.gguf")
        self.assertEqual((work.layers, work.heads, work.kv_heads, work.head_dim), (8, 6, 2, 64))
        self.assertEqual(work.attended(9), 80)
        self.assertEqual(work.prompt_flops(3), 2 * work.matrix_weights * 3 + 4 * 6 * 64 * 8 * 6)

    def test_counts_only_the_window_in_sliding_layers(self):
        work = ModelWork(ROOT / "assets/needle-14m-128k-q8_0.gguf")
        work.windows = [2] * 8
        self.assertEqual(work.attended(9), 16)
        self.assertEqual(work.prompt_flops(3), 2 * work.matrix_weights * 3 + 4 * 6 * 64 * 8 * 5)


if __name__ == "__main__":
    unittest.main()
