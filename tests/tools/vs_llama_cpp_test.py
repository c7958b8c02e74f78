#!/usr/bin/env python3
"""bench/vs_llama_cpp with two fake programs: what it asks for, how it judges, what it refuses."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

FAKE = """#!{python}
import json, sys
words = sys.argv[1:]
flag = lambda name: int(words[words.index(name) + 1])
print(json.dumps({{"n_prompt": flag("-p"), "n_gen": flag("-n"), "n_depth": flag("-d"), "n_threads": flag("-t"),
                   "avg_ts": {speed}, **{extra}}}))
open(__file__ + ".calls", "a").write(" ".join(words) + "\\n")
"""
OURS = {"method": "full", "density": 1.0, "share": 0.25,
        "roofline": {"fma_gflops": 100.0, "matrix_gflops": 400.0, "read_gbs": 20.0}}


class WithFakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.fake("llama-bench", 100.0)

    def fake(self, name, speed, extra=None):
        path = self.folder / name
        path.write_text(FAKE.format(python=shutil.which("python3"), speed=speed, extra={**(OURS if name == "entropyinfer" else {}), **(extra or {})}))
        path.chmod(0o755)


class VsLlamaCpp(WithFakes):
    def compare(self, rows, *words):
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/vs_llama_cpp", "--rows", rows, "--threads", "2",
                               "--ours", self.folder / "entropyinfer", "--llama-bench", self.folder / "llama-bench",
                               "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    def test_passes_a_row_at_its_bar_and_fails_below(self):
        self.fake("entropyinfer", 300.0)
        for bars, code in (("bf16", 0), ("plain", 0), ("amx", 1)):  # 3x is enough without AMX only
            done, lines = self.compare("needle-pp16384", "--bars", bars, "--rounds", "2")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(lines[1]["ratio"], 3.0)
            self.assertEqual(lines[1]["rounds"], 2)
            self.assertEqual(lines[1]["pass"], code == 0)

    def test_reports_the_share_of_the_measured_roofline(self):
        self.fake("entropyinfer", 1000.0)
        done, lines = self.compare("needle-tg128", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((lines[1]["share_of_roofline"], lines[1]["roofline"]), (0.25, OURS["roofline"]))

    def test_asks_both_for_the_same_work_in_turns(self):
        self.fake("entropyinfer", 1000.0)
        self.compare("needle-tg64-d16384", "--rounds", "2", "--repetitions", "3")
        model = ROOT / "assets/needle-14m-128k-q8_0.gguf"
        work = f"-m {model} -p 0 -n 64 -d 16384 -t 2 -r 3 -o jsonl --no-warmup"
        self.assertEqual((self.folder / "llama-bench.calls").read_text().splitlines(), [f"-fa 1 {work}"] * 2)
        self.assertEqual((self.folder / "entropyinfer.calls").read_text().splitlines(), [f"bench --roofline {work}"] * 2)

    def test_refuses_a_result_of_a_lossy_method(self):
        self.fake("entropyinfer", 900.0, {"method": "entropyinfer", "density": 0.2})
        done, _ = self.compare("needle-tg128", "--rounds", "1")
        self.assertIn("not full attention", done.stderr)
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


CMAKE = """#!{python}
import pathlib, sys
words = sys.argv[1:]
open({log!r}, "a").write(" ".join(words) + "\\n")
if "--build" in words:
    folder = pathlib.Path(words[words.index("--build") + 1]) / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "llama-bench").write_bytes(pathlib.Path({bench!r}).read_bytes())
    (folder / "llama-bench").chmod(0o755)
else:
    cache = pathlib.Path(words[words.index("-B") + 1]) / "CMakeCache.txt"
    home = "CMAKE_HOME_DIRECTORY:INTERNAL=" + words[words.index("-S") + 1] + "\\n"
    if cache.exists() and cache.read_text() != home:
        sys.exit("the source does not match")
    cache.write_text(home)
"""


class LlamaBench(WithFakes):
    """How llama-bench is built, with a fake CMake that refuses the folder of another source as the real one does."""

    def setUp(self):
        super().setUp()
        self.fake("entropyinfer", 300.0)
        tree = self.folder / "tree/ggml"
        tree.mkdir(parents=True)
        (tree / "CMakeLists.txt").touch()
        programs = self.folder / "programs"
        programs.mkdir()
        self.log = self.folder / "cmake.calls"
        (programs / "cmake").write_text(CMAKE.format(python=shutil.which("python3"), log=str(self.log),
                                                     bench=str(self.folder / "llama-bench")))
        self.cxx = programs / "c++"
        self.cxx.write_text("#!/bin/sh\necho compiler 12\n")
        for program in programs.iterdir():
            program.chmod(0o755)
        self.build = self.folder / f"deps/build-llama-bench-{platform.machine()}"
        self.env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "EI_DEPS_DIR": str(self.folder / "deps"),
                    "LLAMA_CPP_DIR": str(tree.parent)}
        self.env.pop("CXX", None)
        self.env.pop("EI_CPU_TARGET", None)

    def compare_with_a_build(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/vs_llama_cpp", "--rows", "needle-tg128", "--rounds",
                               "1", "--ours", self.folder / "entropyinfer", "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_folder_that_another_checkout_configured_is_configured_anew(self):
        self.compare_with_a_build()
        (self.build / "kept.o").touch()
        (self.build / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/another/checkout\n")
        self.compare_with_a_build()
        self.assertTrue((self.build / "kept.o").exists())

    def test_what_another_compiler_or_cpu_built_is_built_anew(self):
        self.compare_with_a_build()
        (self.build / "stale.o").touch()
        self.cxx.write_text("#!/bin/sh\necho compiler 13\n")
        self.compare_with_a_build()
        self.assertFalse((self.build / "stale.o").exists())

    def test_a_cpu_target_has_a_folder_and_flags_of_its_own(self):
        self.compare_with_a_build()
        self.assertIn("-DEI_CPU_TARGET=\n", self.log.read_text())
        target = "armv8.2" if platform.machine() == "aarch64" else "x86-64-v3"
        self.env["EI_CPU_TARGET"] = target
        self.compare_with_a_build()
        self.assertTrue((self.build.parent / f"{self.build.name}-{target}/bin/llama-bench").exists())
        self.assertIn(f"-DEI_CPU_TARGET={target}\n", self.log.read_text())

    def test_a_folder_without_a_key_is_not_trusted(self):
        self.build.mkdir(parents=True)
        (self.build / "stale.o").touch()
        self.compare_with_a_build()
        self.assertFalse((self.build / "stale.o").exists())
        self.assertIn(str(self.build), self.log.read_text())


if __name__ == "__main__":
    unittest.main()
