#!/usr/bin/env python3
"""make_gguf writes what was asked for, says in one line what it cannot, and its how-to names all there is.
Usage: make_gguf_test.py PROGRAM"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop(1)


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)


class MakeGguf(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "model.gguf"

    def test_the_same_seed_gives_the_same_bytes(self):
        files = []
        for seed in ("1", "1", "2"):
            self.assertEqual(run("--layers", "1", "--seed", seed, str(self.path)).returncode, 0)
            files.append(self.path.read_bytes())
        self.assertTrue(files[0].startswith(b"GGUF"))
        self.assertEqual(files[0], files[1])
        self.assertNotEqual(files[0], files[2])

    def test_an_option_changes_a_preset(self):
        small = ["--preset", "llama-3.1-8b", "--layers", "1", "--width", "256", "--ffn", "256", "--vocab", "512"]
        self.assertEqual(run(*small, str(self.path)).returncode, 0)
        self.assertLess(self.path.stat().st_size, 100 << 20)

    def test_mistakes_are_one_line_and_exit_two(self):
        for words in (["--bogus"], [], ["--layers", "many"], ["--layers", "0"], ["--type", "Q9"], ["--family", "gpt"],
                      ["--preset", "gpt-2"], ["--rope-scaling", "round"], ["--heads", "3"]):
            path = [str(self.path)] if words else []
            outcome = run(*words, *path)
            with self.subTest(words=words, err=outcome.stderr):
                self.assertEqual(outcome.returncode, 2)
                self.assertEqual(outcome.stdout, "")
                self.assertEqual(outcome.stderr.count("\n"), 1)
                self.assertTrue(outcome.stderr.startswith("make_gguf: "))
                self.assertFalse(self.path.exists())

    def test_the_how_to_names_every_option_and_preset(self):
        text = (ROOT / "docs/how-to/random-models.md").read_text()
        described = run("--help")
        self.assertEqual(described.returncode, 0)
        options = set(re.findall(r"^ +(?:-\w,)?(--[a-z0-9-]+)", described.stdout, re.MULTILINE)) - {"--help"}
        presets = re.search(r"other options change it:([^\[]*?)(?=\n +-|\Z)", described.stdout, re.DOTALL).group(1).split()
        self.assertGreater(len(options), 10)
        self.assertGreater(len(presets), 5)
        for name in sorted(options) + presets:
            self.assertIn(f"`{name}", text)


if __name__ == "__main__":
    unittest.main()
