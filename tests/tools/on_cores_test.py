#!/usr/bin/env python3
"""tests/on_cores.sh gives tests cores of their own and hides nothing of what they say."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "on_cores.sh"
SHOW = ["python3", "-c", "import os; print(sorted(os.sched_getaffinity(0)), flush=True); input()"]


class OnCores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = dict(os.environ, TMPDIR=folder.name)

    def start(self, count):
        child = subprocess.Popen([SCRIPT, str(count), *SHOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 env=self.environment)
        self.addCleanup(child.communicate, "\n")
        return child.stdout.readline().strip()

    def test_passes_on_both_outputs_and_the_exit_code(self):
        done = subprocess.run([SCRIPT, "1", "sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True, text=True,
                              env=self.environment)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("out\n", "err\n", 3))

    def test_gives_each_a_core_of_its_own_as_long_as_there_are(self):
        usable = sorted(os.sched_getaffinity(0))
        if usable != list(range(len(usable))):
            self.skipTest("cores are not numbered from 0 here")
        seen = [self.start(1) for _ in usable]
        self.assertEqual(seen, [str([core]) for core in usable])
        self.assertEqual(self.start(1), str(usable))

    def test_runs_it_all_the_same_without_enough_cores_or_a_place_for_locks(self):
        usable = str(sorted(os.sched_getaffinity(0)))
        self.assertEqual(self.start(100000), usable)
        self.environment["TMPDIR"] = "/nonexistent"
        self.assertEqual(self.start(1), usable)


if __name__ == "__main__":
    unittest.main()
