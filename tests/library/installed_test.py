#!/usr/bin/env python3
"""Installs the build into an empty folder, moves it, and builds and runs examples/ against it with nothing of the
checkout in reach. Usage: installed_test.py SOURCE BUILD"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
MODEL = SOURCE / "assets" / "needle-14m-128k-q8_0.gguf"
QUESTION = "Once upon a time"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ei_installed_"))
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.libraries = next(cls.prefix.glob("lib*/**/libentropyinfer.so")).parent
        run("cmake", "-S", SOURCE / "examples", "-B", cls.folder / "examples", f"-DCMAKE_PREFIX_PATH={cls.prefix}",
            "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", cls.folder / "examples")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def the_programs_words(self):
        done = subprocess.run([self.prefix / "bin" / "entropyinfer", "run", "-m", MODEL, "--raw", "--temp", "0", "-n",
                               "32", "-p", QUESTION], text=True, capture_output=True, check=True)
        return done.stdout.strip()

    def test_examples_say_what_the_program_says(self):
        words = self.the_programs_words()
        self.assertNotEqual(words, "")
        self.assertEqual(run(self.folder / "examples" / "ask", MODEL, QUESTION).strip(), words)
        self.assertEqual(run(self.folder / "examples" / "ask_c", MODEL, QUESTION).strip(), words)

    def test_a_mistake_is_one_line_and_the_exit_code_of_the_program(self):
        done = subprocess.run([self.folder / "examples" / "ask_c", "nowhere.gguf", "x"], text=True, capture_output=True)
        own = subprocess.run([self.prefix / "bin" / "entropyinfer", "run", "-m", "nowhere.gguf", "-p", "x"], text=True,
                             capture_output=True)
        self.assertEqual(done.returncode, own.returncode)
        self.assertEqual("entropyinfer: " + done.stderr, own.stderr)

    def test_the_installed_program_finds_its_model(self):
        self.assertIn("needle", run(self.prefix / "bin" / "entropyinfer", "info", cwd="/"))

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config here")
    def test_pkg_config_is_enough_for_a_c_compiler(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "entropyinfer", env=environment).split()
        program = self.folder / "by_pkg_config"
        run(os.environ.get("CC", "cc"), "-std=c11", SOURCE / "examples" / "ask.c", "-o", program, *flags)
        out = run(program, MODEL, QUESTION, env={**os.environ, "LD_LIBRARY_PATH": str(self.libraries)})
        self.assertEqual(out.strip(), self.the_programs_words())

    def test_the_library_shows_the_functions_of_the_header_and_no_others(self):
        header = (self.prefix / "include" / "entropyinfer" / "c_api.h").read_text()
        declared = set(re.findall(r"^EI_API [^;(]*?\*?(ei_\w+)\(", header, re.MULTILINE))
        library = self.libraries / "libentropyinfer.so"
        symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
        self.assertEqual(declared, set(symbols))

    def test_headers_do_not_name_what_is_not_installed(self):
        installed = {path.name for path in (self.prefix / "include" / "entropyinfer").iterdir()}
        for path in (self.prefix / "include" / "entropyinfer").iterdir():
            for name in re.findall(r'#include "([^"]+)"', path.read_text()):
                self.assertTrue(name.startswith("entropyinfer/") and name.split("/")[1] in installed, f"{path}: {name}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
