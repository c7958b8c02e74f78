#!/usr/bin/env python3
"""tools/fetch_file.py against an index on this machine that breaks off, starts over or lies."""

import hashlib
import http.server
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import urllib.error

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fetch_file  # noqa: E402

FILE = "some_model-1.0-py3-none-any.whl"
CONTENT = bytes(range(256)) * 4000


class Index(http.server.BaseHTTPRequestHandler):
    """One package with one file. `cuts` says after how many bytes the next transfers break off."""

    def do_GET(self):
        state = self.server.state
        state["asked"].append((self.path, self.headers.get("Range")))
        if self.path == "/simple/some-model/":
            body = f'<a href="../../files/some_model-0.9.tar.gz">old</a><a href="../../files/{FILE}#sha256=1">new</a>'.encode()
            return self.answer(200, body, len(body))
        if self.path != f"/files/{FILE}" or state["gone"]:
            return self.send_error(404)
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if state["ranges"] else 0
        if start >= len(CONTENT):
            return self.send_error(416)
        cut = state["cuts"].pop(0) if state["cuts"] else len(CONTENT)
        return self.answer(206 if start else 200, state["content"][start:][:cut], len(CONTENT) - start)

    def answer(self, status, body, length):
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class FetchFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        self.state = {"asked": [], "cuts": [], "ranges": True, "content": CONTENT, "gone": False}
        self.server.state = self.state
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        for name, value in (("PIP_INDEX_URL", f"http://127.0.0.1:{self.server.server_port}/simple/"), ("no_proxy", "*")):
            self.addCleanup(os.environ.__setitem__ if name in os.environ else lambda name, _: os.environ.pop(name),
                            name, os.environ.get(name))
            os.environ[name] = value

    def fetch(self, sha256=hashlib.sha256(CONTENT).hexdigest()):
        fetch_file.fetch("some-model==1.0", FILE, sha256, self.folder, pause=0)

    def ranges(self):
        return [asked for path, asked in self.state["asked"] if path.startswith("/files")]

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def assert_whole(self):
        self.assertEqual(self.files(), [FILE])
        self.assertEqual((self.folder / FILE).read_bytes(), CONTENT)

    def test_a_file_comes_in_one_piece(self):
        self.fetch()
        self.assert_whole()
        self.assertEqual(self.ranges(), [None])

    def test_a_broken_transfer_goes_on_where_it_stopped(self):
        self.state["cuts"] = [1000, 5000]
        self.fetch()
        self.assert_whole()
        self.assertEqual(self.ranges(), [None, "bytes=1000-", "bytes=6000-"])

    def test_the_next_run_goes_on_where_the_last_one_gave_up(self):
        self.state["cuts"] = [100] * fetch_file.TRIES
        with self.assertRaisesRegex(fetch_file.Failed, "bytes early"):
            self.fetch()
        self.assertEqual(self.files(), [FILE + ".part"])
        self.fetch()
        self.assert_whole()
        self.assertEqual(self.ranges()[-1], f"bytes={100 * fetch_file.TRIES}-")

    def test_a_server_without_ranges_starts_over(self):
        self.state.update(ranges=False, cuts=[1000])
        self.fetch()
        self.assert_whole()

    def test_a_part_that_is_already_whole_is_taken(self):
        (self.folder / f"{FILE}.part").write_bytes(CONTENT)
        self.fetch()
        self.assert_whole()

    def test_a_part_of_something_else_is_dropped(self):
        (self.folder / f"{FILE}.part").write_bytes(b"something else")
        self.fetch()
        self.assert_whole()
        self.assertEqual(self.ranges(), ["bytes=14-", None])

    def test_a_wrong_file_is_refused_and_not_kept(self):
        self.state["content"] = CONTENT[:-1] + b"x"
        with self.assertRaisesRegex(fetch_file.Failed, "sha256"):
            self.fetch()
        self.assertEqual(self.files(), [])

    def test_a_file_that_is_gone_or_unlisted_is_named(self):
        self.state["gone"] = True
        with self.assertRaisesRegex(fetch_file.Failed, f"{FILE}: .*404"):
            self.fetch()
        with self.assertRaisesRegex(fetch_file.Failed, "does not list other.whl"):
            fetch_file.fetch("some-model==1.0", "other.whl", "", self.folder)
        with self.assertRaises(urllib.error.HTTPError):
            fetch_file.fetch("other-model==1.0", FILE, "", self.folder)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
