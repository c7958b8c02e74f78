#!/usr/bin/env python3
"""tools/busy.sh: busy while the command runs, idle behind it, and the command's own exit code."""

import pathlib
import subprocess
import unittest

BUSY = pathlib.Path(__file__).resolve().parents[2] / "tools/busy.sh"


def run(*words):
    return subprocess.run([BUSY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Busy(unittest.TestCase):
    def test_runs_as_many_loops_as_asked_for_and_ends_them(self):
        done = run("3", "sh", "-c", 'echo $PPID; sleep 0.3; ps -o pid= --ppid $PPID')
        parent, *children = done.stdout.split()
        self.assertEqual(len(children), 4, done.stdout)  # the loops and the command
        for process in [parent, *children]:
            self.assertNotEqual(subprocess.run(["kill", "-0", process], stderr=subprocess.DEVNULL).returncode, 0)

    def test_gives_the_exit_code_of_the_command(self):
        self.assertEqual(run("1", "true").returncode, 0)
        self.assertEqual(run("1", "sh", "-c", "exit 7").returncode, 7)

    def test_refuses_what_is_no_count(self):
        for words in ((), ("2",), ("x", "true"), ("0", "true")):
            done = run(*words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))


if __name__ == "__main__":
    unittest.main()
