#!/usr/bin/env python3
"""Fetches one file of a Python package index, and goes on in the middle of it when an earlier run was cut off.

Usage: tools/fetch_file.py REQUIREMENT FILE SHA256 FOLDER

What has arrived is kept as FOLDER/FILE.part; FILE itself appears only when it is whole and its sha256 is the given one.
The index is the one that pip is set up with. Exit code 1 and one line otherwise: tools/deps.sh then asks pip itself, which
knows more kinds of index (ones that want a password, or folders).
"""

import hashlib
import html.parser
import http.client
import os
import pathlib
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

CHUNK = 1 << 18
TRIES = 5


class Failed(Exception):
    """The one line that says why."""


class Links(html.parser.HTMLParser):
    """Collects the addresses of an index page."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.found = []

    def handle_starttag(self, tag, attrs):
        address = dict(attrs).get("href") if tag == "a" else None
        if address:
            self.found.append(urllib.parse.urldefrag(urllib.parse.urljoin(self.base, address)).url)


def setting(name):
    """What pip's environment, then its configuration says; None when neither does."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value
    done = subprocess.run([sys.executable, "-m", "pip", "config", "get", f"global.{name}"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or None if done.returncode == 0 else None


def index_address():
    address = setting("index-url")
    if address:
        return address.rstrip("/")
    try:
        from pip._internal.models.index import PyPI
        return PyPI.simple_url
    except ImportError as error:
        raise Failed(f"pip does not say which index it uses: {error}") from error


class Web:
    def __init__(self):
        self.context = ssl.create_default_context(cafile=setting("cert"))

    def open(self, address, **headers):
        request = urllib.request.Request(address, headers={"Accept-Encoding": "identity", **headers})
        return urllib.request.urlopen(request, timeout=60, context=self.context)


def address_of(web, package, file):
    page = f"{index_address()}/{package}/"
    with web.open(page, Accept="text/html") as answer:
        links = Links(answer.url)
        links.feed(answer.read().decode("utf-8", "replace"))
    for link in links.found:
        if pathlib.PurePosixPath(urllib.parse.unquote(urllib.parse.urlparse(link).path)).name == file:
            return link
    raise Failed(f"the index does not list {file}")


def receive(web, address, part):
    """Appends to `part` what it lacks. An interrupted transfer raises, with what came kept."""
    have = part.stat().st_size if part.exists() else 0
    try:
        answer = web.open(address, **({"Range": f"bytes={have}-"} if have else {}))
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is lacking; the checksum decides whether that is so
            return
        raise
    with answer:
        goes_on = answer.status == 206
        expected = answer.headers.get("Content-Length")
        got = 0
        with part.open("ab" if goes_on else "wb") as out:
            while block := answer.read(CHUNK):
                out.write(block)
                got += len(block)
        if expected is not None and got < int(expected):
            raise OSError(f"the connection ended {int(expected) - got} bytes early")


def sha256_of(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def fetch(requirement, file, sha256, folder, pause=1.0):
    part = folder / f"{file}.part"
    web = Web()
    resumed = part.exists()
    address = address_of(web, requirement.split("==")[0], file)
    for attempt in range(1, TRIES + 1):
        try:
            receive(web, address, part)
        except (OSError, http.client.HTTPException) as error:  # urllib's errors are OSErrors
            if attempt == TRIES or isinstance(error, urllib.error.HTTPError):
                raise Failed(f"{file}: {error}") from error
            time.sleep(pause * attempt)
            continue
        if sha256_of(part) == sha256:
            part.replace(folder / file)
            return
        part.unlink()
        if not resumed:
            raise Failed(f"sha256 of {file} is not the pinned one")
        resumed = False  # what an earlier run left may have been something else: once more, from the start
    raise Failed(f"sha256 of {file} is not the pinned one")


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: tools/fetch_file.py REQUIREMENT FILE SHA256 FOLDER")
    try:
        fetch(*sys.argv[1:4], pathlib.Path(sys.argv[4]))
    except (Failed, OSError, ValueError, http.client.HTTPException) as error:
        sys.exit(f"deps: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
