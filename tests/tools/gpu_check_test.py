#!/usr/bin/env python3
"""tools/gpu_check.sh run: what every stage calls, what it leaves out, and models that come in parts. Programs are fakes."""

import hashlib
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("entropyinfer make_gguf device_bench device_kld attend_bench product_algorithms ei_gpu_test ei_gpu_engine_test "
            "ei_gpu_model_test ei_parity_test ei_serving_test kernel_times.so").split()
MODELS = ("SmolLM2-135M-Instruct-Q4_1.gguf", "gemma-3-270m-Q4_K_M.gguf")
# Stages that need a compiler or an hour, and the one that is made of the others.
ELSEWHERE = ("build", "sanitize", "all")


def stages():
    """As the head of the script lists them."""
    head = (ROOT / "tools/gpu_check.sh").read_text().split("set -euo")[0]
    return re.findall(r"^#   (\w+) +[\d.]+ ", head, re.MULTILINE) + re.findall(r"; (\w+)  1  ", head)


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pack = self.folder / "pack"
        self.bin = self.folder / "build/bin"
        for made in (self.pack, self.bin):
            made.mkdir(parents=True)
        for name in PROGRAMS:
            self.fake(name)
        self.fake("python3")  # has everything that is imported
        (self.folder / "bin").mkdir()
        (self.bin / "python3").rename(self.folder / "bin/python3")

    def fake(self, name, code=0):
        """Writes down how it was called; the last word of make_gguf is a file."""
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "${{CUDA_INJECTION64_PATH:+timed }}{name} $*" >>{self.folder}/calls\n'
                        f'[ {name} != make_gguf ] || touch "${{!#}}"\nexit {code}\n')
        path.chmod(0o755)

    def run_stages(self, *names, text=True):
        if text:
            (self.pack / "books.txt").write_text("It was a dark night. " * 100)
        env = {**os.environ, "EI_CHECK_BUILD": str(self.folder / "build"), "EI_CHECK_DIR": str(self.folder / "work"),
               "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run([ROOT / "tools/gpu_check.sh", "run", self.pack, *names], env=env, cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        calls = self.folder / "calls"
        return done.returncode, done.stdout, calls.read_text() if calls.exists() else ""

    def bring(self, name, parts):
        """What `pack` makes of a model, of which these parts come in one run."""
        whole = bytes(range(100))
        for old in self.pack.glob("*.part*"):
            old.unlink()
        for part in parts:
            (self.pack / f"{name}.part{part:02}").write_bytes(whole[40 * part:40 * part + 40])
        (self.pack / f"{name}.sha256").write_text(f"{hashlib.sha256(whole).hexdigest()}  -\n")

    def test_runs_every_stage_that_its_head_lists(self):
        named = stages()
        self.assertGreater(len(named), 20)
        for name in MODELS:
            (self.pack / name).write_bytes(b"")
        code, output, calls = self.run_stages(*(name for name in named if name not in ELSEWHERE))
        self.assertEqual(code, 0, output)
        for name in named:
            if name not in ELSEWHERE:
                self.assertRegex(output, rf"(?m)^{name}: \d+ s$")
        for program in PROGRAMS:
            if program != "kernel_times.so":  # the driver's to load
                self.assertIn(program + " ", calls)
        self.assertIn("--methods full,entropyinfer@samples --first-rounds 1 -r 1", calls)
        for length in (262044, 524188, 1000000):
            self.assertRegex(calls, rf"device_bench .*--lengths {length}\b")
        for model in MODELS:
            self.assertRegex(calls, rf"device_kld -m \S*{model} .*--base-device cpu .*--method entropyinfer")
        self.assertEqual(len(re.findall("(?m)^timed device_bench .*-n 1 ", calls)), 3)
        self.assertIn("flashinfer_sparse.py", calls)
        self.assertEqual(re.findall("left out: (.*)", output), ["packed without EI_CHECK_LLAMA_CUDA=ON"])

    def test_all_runs_every_program(self):
        code, output, calls = self.run_stages("all")
        self.assertEqual(code, 0, output)
        for program in PROGRAMS:
            if program != "kernel_times.so":
                self.assertIn(program + " ", calls)
        self.assertRegex(calls, "device_bench .*-n 100 --methods entropyinfer@samples --lengths 1000000")

    def test_says_what_a_stage_lacks(self):
        code, output, calls = self.run_stages("long1m", "flashinfer", "gemma", "attention", text=False)
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("left out:"), 6, output)
        self.assertRegex(calls, "device_bench .*--methods entropyinfer --lengths 1000000")
        self.assertNotIn("device_kld", calls)
        (self.bin / "ei_serving_test").unlink()
        self.assertIn("server: ei_serving_test left out: not built", self.run_stages("server")[1])

    def test_fails_when_a_program_fails_but_goes_on(self):
        self.fake("device_bench", code=1)
        code, output, calls = self.run_stages("fp8", "products")
        self.assertEqual(code, 1)
        self.assertIn("product_algorithms", calls)
        code, output, _ = self.run_stages("models", "nothing")
        self.assertEqual((code, output), (2, "gpu_check.sh: no stage nothing\n"))

    def test_joins_a_model_that_comes_in_parts(self):
        self.bring(MODELS[0], (0, 2))
        self.assertIn(f"{MODELS[0]}: not whole yet, parts 00 02\n", self.run_stages("smollm")[1])
        self.bring(MODELS[0], (1,))
        code, output, calls = self.run_stages("smollm")
        self.assertEqual(code, 0, output)
        self.assertIn(MODELS[0], calls)
        self.assertEqual((self.folder / "work/given" / MODELS[0]).read_bytes(), bytes(range(100)))


if __name__ == "__main__":
    unittest.main()
