#!/usr/bin/env python3
"""serve with a certificate of the test's own (openssl): answers, streams, connections that are kept, clients that go, and
files that will not do. Usage: tls_test.py PROGRAM. Skipped (77) where there is no openssl, or the program has no TLS."""
import http.client
import json
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from packages import skip
from running_server import Server

PROGRAM = ""
FOLDER = pathlib.Path()


def certificate(name, *more):
    cert, key = FOLDER / f"{name}.crt", FOLDER / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert, *(more or ["-nodes"])],
                   check=True, capture_output=True)
    return cert, key


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cert, key = certificate("own")
        cls.server = Server(PROGRAM, "--ssl-cert-file", str(cls.cert), "--ssl-key-file", str(key))
        cls.port = int(cls.server.url.rsplit(":", 1)[1])

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60,
                                           context=ssl.create_default_context(cafile=self.cert))

    def ask(self, connection, path, body=None):
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def busy(self):
        return any(slot["is_processing"] for slot in json.loads(self.ask(self.connect(), "/slots")[1]))

    def becomes(self, busy, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.busy() == busy:
                return True
            time.sleep(0.05)
        return False

    def test_the_address_says_https(self):
        self.assertTrue(self.server.url.startswith("https://"))

    def test_one_connection_serves_several_requests(self):
        connection = self.connect()
        first = connection.connect() or connection.sock
        for _ in range(3):
            self.assertEqual(self.ask(connection, "/health"), (200, b'{"status":"ok"}'))
            status, body = self.ask(connection, "/completion", {"prompt": "The key is", "n_predict": 3})
            self.assertEqual((status, json.loads(body)["tokens_predicted"]), (200, 3))
            self.assertIs(connection.sock, first)

    def test_requests_that_come_together_are_answered_in_their_order(self):
        wire = ssl.create_default_context(cafile=self.cert).wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), 60), server_hostname="127.0.0.1")
        ask = b"GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n"
        wire.sendall(ask % (b"/v1/models", b"") + ask % (b"/health", b"") + ask % (b"/nothing", b"Connection: close\r\n"))
        text = b""
        while piece := wire.recv(65536):  # ends with the farewell of TLS, or this raises
            text += piece
        self.assertLess(text.index(b'"object":"list"'), text.index(b'"status":"ok"'))
        self.assertLess(text.index(b'"status":"ok"'), text.index(b"HTTP/1.1 404"))

    def test_a_stream_comes_in_pieces_and_ends(self):
        connection = self.connect()
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": "The key is", "max_tokens": 40, "stream": True, "ignore_eos": True}))
        answer = connection.getresponse()
        pieces = [line for line in answer if line.startswith(b"data: ")]
        self.assertGreater(len(pieces), 20)
        self.assertEqual(pieces[-1], b"data: [DONE]\n")
        self.assertEqual(self.ask(connection, "/health")[0], 200)  # on the same connection

    def test_a_large_body_arrives_and_too_large_a_one_is_told(self):
        text = "word " * 40000
        status, body = self.ask(self.connect(), "/tokenize", {"content": text})
        self.assertEqual(status, 200)
        self.assertGreater(len(json.loads(body)["tokens"]), 40000)
        connection = self.connect()
        connection.putrequest("POST", "/tokenize")
        connection.putheader("Content-Length", str(1 << 30))
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 413)

    def test_a_client_that_goes_frees_its_slot(self):
        for polite, behind in ((True, b""), (False, b""), (False, b"\r\n")):
            connection = self.connect()
            connection.request("POST", "/completion", json.dumps(
                {"prompt": "The key is", "n_predict": 30000, "ignore_eos": True, "stream": False}))
            self.assertTrue(self.becomes(busy=True))
            connection.send(behind)
            if polite:
                connection.sock.settimeout(0.2)
                try:
                    connection.sock.unwrap()  # the farewell of TLS, while the answer is still being made
                except (OSError, ssl.SSLError):
                    pass
            connection.close()
            self.assertTrue(self.becomes(busy=False, seconds=5), f"polite={polite} {behind}")

    def test_who_speaks_no_tls_is_left_and_nobody_else_minds(self):
        with socket.create_connection(("127.0.0.1", self.port), 60) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertNotIn(b"200", plain.recv(1000))
        self.assertEqual(self.ask(self.connect(), "/health")[0], 200)


class Files(unittest.TestCase):
    def refuses(self, cert, key, why):
        flags = (["--ssl-cert-file", cert] if cert else []) + (["--ssl-key-file", key] if key else [])
        done = subprocess.run([PROGRAM, "serve", "--port", "0", *map(str, flags)], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("entropyinfer: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(why, errors[0])

    def test_files_that_will_not_do_are_a_mistake_in_one_line(self):
        cert, key = certificate("first")
        _, other = certificate("second")
        _, locked = certificate("locked", "-passout", "pass:secret")
        text = FOLDER / "text"
        text.write_text("no certificate\n")
        self.refuses(cert, None, "both")
        self.refuses(None, key, "both")
        self.refuses(FOLDER / "absent", key, "absent")
        self.refuses(text, key, "no certificate")
        self.refuses(cert, text, "no key")
        self.refuses(cert, other, "belongs")
        self.refuses(cert, locked, "password")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    linked = subprocess.run(["ldd", PROGRAM], text=True, capture_output=True).stdout
    if not shutil.which("openssl") or "libssl" not in linked:
        skip("no openssl, or built without TLS")
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = pathlib.Path(folder)
        unittest.main(warnings="ignore")
