"""A headless Chromium, driven over its DevTools pipe: nothing but the browser and Python's own library."""
import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from packages import skip  # noqa: E402

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
FLAGS = ["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-sandbox", "--disable-gpu",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,900"]


def find_browser():
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def arguments(prefix):
    """--program and --pictures of a test, and the browser that there is; without one the test is skipped (77)"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--pictures")
    options = parser.parse_args()
    browser = find_browser()
    if browser is None:
        skip("no Chromium here")
    pictures = options.pictures or tempfile.mkdtemp(prefix=prefix)
    pathlib.Path(pictures).mkdir(parents=True, exist_ok=True)
    return options.program, pictures, browser


class Browser:
    """One tab. `problems` gathers what the page reports: exceptions, console errors, refused loads. `chooser` is the field of
    the last dialog that asked for files."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory()
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def take_pipes():  # the browser reads from 3 and writes to 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"],
                                        preexec_fn=take_pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.problems, self.chooser = b"", 0, None, [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.call(domain + ".enable")
        self.call("Page.setInterceptFileChooserDialog", enabled=True)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def _next(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(end - time.time(), 0))
            if not ready:
                raise TimeoutError("the browser did not answer")
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise EOFError("the browser has gone")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        end = time.time() + 60
        while True:
            message = self._next(end)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _note(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:600])
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.problems.append("console: " + json.dumps(params["args"])[:600])
        elif message.get("method") == "Page.fileChooserOpened":
            self.chooser = params["backendNodeId"]

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def script(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:600])
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            value = self.script(expression)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"never true: {expression}")

    def click(self, selector):
        """Where a mouse would hit it."""
        box = self.script(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView("
                          "{block: 'center'}); const b = e.getBoundingClientRect();"
                          "return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def choose(self, selector, path):
        """The file that the dialog behind a button asks for."""
        self.click(selector)
        end = time.time() + 60
        while self.chooser is None and time.time() < end:
            self.script("0")  # what the browser tells meanwhile is noted
        self.call("DOM.setFileInputFiles", files=[str(path)], backendNodeId=self.chooser)
        self.chooser = None

    def prefer(self, scheme):
        """As the system does: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, code):
        text = "\r" if name == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code,
                      text=text if kind == "keyDown" else "")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def nameless(self):
        """Controls that a screen reader could not name."""
        found = []
        for node in self.call("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value")
            if role in ("button", "textbox", "combobox", "checkbox", "spinbutton") and not node.get("ignored"):
                if not node.get("name", {}).get("value"):
                    found.append(role)
        return found
