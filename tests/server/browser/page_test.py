#!/usr/bin/env python3
"""The page in a real browser: type, stream, stop, edit, retry, a long text, a file, a sparse method and its budget, both
sides, reload, dark, 400 pixels, keyboard, screen reader, a key.

Usage: page_test.py --program BIN [--pictures DIR]
Needs Chromium (Debian: chromium); without it the test says so and is skipped (exit code 77).
"""
import json
import pathlib
import random
import re
import sys
import tempfile

import devtools

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from running_server import Server  # noqa: E402

WORDS = "river stone winter letter garden silver morning captain window harbour".split()


def long_text(words):
    """With a fact in the middle."""
    source = random.Random(7)
    text = [source.choice(WORDS) for _ in range(words)]
    text.insert(words // 2, "The pass key is 48213.")
    return " ".join(text)


class PageTest:
    def __init__(self, page, url, pictures):
        self.page, self.url, self.pictures = page, url, pathlib.Path(pictures)

    def picture(self, name):
        self.page.picture(self.pictures / f"{name}.png")

    def text(self, selector):
        return self.page.script(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def set(self, selector, value):
        self.page.script(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
                         "e.dispatchEvent(new Event('change', {bubbles: true})); })()")

    def count(self, selector):
        return self.page.script(f"document.querySelectorAll({json.dumps(selector)}).length")

    def ask(self, question):
        self.page.click("#question")
        self.page.type(question)
        self.page.key("Enter", 13)

    def finished(self, answers):
        self.page.wait(f"document.querySelectorAll('.assistant').length === {answers} && "
                       "!document.querySelector('.side.running') && document.querySelector('#stop').hidden", 120)

    def drop(self, text):
        self.page.script("(() => { const data = new DataTransfer(); data.items.add(new File([" + json.dumps(text) +
                         "], 'book.txt')); document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data,"
                         "bubbles: true, cancelable: true})); })()")
        self.page.wait("!!document.querySelector('#files li')")

    def opens_and_streams(self):
        self.page.open(self.url)
        self.page.wait("document.querySelector('#method').options.length > 3")
        assert self.page.script("document.activeElement.id") == "question", "the question has the focus"
        self.set("#length", "1500")  # long enough to be seen growing
        self.page.script("window.lengths = new Set(); new MutationObserver(() => lengths.add(document.querySelector("
                         "'.side .text')?.textContent.length)).observe(document.querySelector('#turns'),"
                         "{subtree: true, childList: true, characterData: true})")
        self.ask("The pass key is 70391. What is the pass key? Say it again and again.")
        self.finished(1)
        seen = self.page.script("[...lengths]")
        assert len(seen) > 3, f"the answer came in one piece: {seen}"
        assert "tokens/s" in self.text(".side .effects"), self.text(".side .effects")
        assert "70391" in self.text("#said"), "a screen reader is told the answer"
        self.picture("1-answer")

    def edits_and_retries(self):
        self.page.click(".user .actions button")
        self.page.wait("!!document.querySelector('.user textarea')")
        self.page.script("document.querySelector('.user textarea').select()")
        self.page.type("Another question?")
        self.page.key("Enter", 13)
        self.finished(1)
        assert self.text(".user .text") == "Another question?"
        assert self.count(".user") == 1
        self.page.click(".assistant .actions button")
        self.finished(1)
        assert self.count(".turn") == 2

    def retries_while_it_writes(self):
        self.page.script("window.ends = 0; new MutationObserver(() => { ends += document.querySelector('#stop').hidden; })"
                         ".observe(document.querySelector('#stop'), {attributes: true}); 0")
        for _ in range(2):
            self.page.click(".assistant .actions button")
            self.page.wait("document.querySelector('.side.running .text')?.textContent.length > 0")
        self.finished(1)
        assert "tokens/s" in self.text(".side .effects"), "the answer that was given up shows: " + self.text(".effects")
        assert self.page.script("ends") == 1, "it ended the one that was asked for behind it"

    def reads_a_long_text_sparsely(self):
        self.set("#method", "entropyinfer")
        self.set("#budget", "300")
        self.set("#length", "40")
        self.drop(long_text(9000))
        self.picture("2-dropped")
        self.page.script("window.sent = []; const plain = window.fetch; window.fetch = (path, options) => {"
                         "sent.push([path, options?.body ?? '']); return plain(path, options); }; 0")
        self.ask("What is the pass key?")
        assert "Reading" in self.page.wait("(() => { const t = document.querySelector('#live').textContent;"
                                           "return t.includes(' of ') ? t : '' })()")
        # As it happens: at the same moment a part of the text is read, and the heads of that part are to be seen.
        self.page.wait("(() => { const [bar, map] = ['#bar', '#map'].map((name) => document.querySelector(name));"
                       "return !bar.hidden && bar.value > 0 && bar.value < 1 && !map.hidden &&"
                       "map.getContext('2d').getImageData(0, 0, map.width, map.height).data.some((one) => one > 0); })()")
        self.picture("3-reading")
        self.finished(2)
        body = json.loads(self.page.script("sent").pop()[1])
        assert (body["method"], body["kv_budget"]) == ("entropyinfer", 300), body.keys()
        figures = self.text("#figures")
        density = re.search(r"Attention computed([\d.]+) %", figures)
        assert density and float(density.group(1)) < 90, figures
        assert self.count("#heads-table tr") > 4, "the heads are there as a table"
        self.page.script("document.querySelector('#map').focus()")
        self.page.key("ArrowDown", 40)
        self.page.key("ArrowRight", 39)
        assert "entropy" in self.text("#point"), self.text("#point")
        self.picture("4-sparse")

    def answers_the_second_question_at_once(self):
        self.ask("And once more: the pass key?")
        self.finished(3)
        sent = self.page.script("sent")
        assert [path for path, body in sent if len(body) > 20000] == ["/texts"], "the text is sent once"
        held = re.search(r"([\d,]+) tokens were held", self.text(".assistant:last-child .effects"))
        assert held and int(held.group(1).replace(",", "")) > 5000, self.text(".assistant:last-child .effects")

    def compares(self):
        self.page.click("#clear")
        self.page.wait("document.querySelectorAll('.turn').length === 0")
        self.page.click("#compare")
        self.drop(long_text(6000))
        self.ask("What is the pass key?")
        self.page.wait("document.querySelectorAll('.side').length === 2")
        self.finished(1)
        heads = self.page.script("[...document.querySelectorAll('.side h3')].map((e) => e.textContent)")
        assert heads == ["full", "entropyinfer"], heads
        self.picture("5-side-by-side")

    def stops(self):
        self.page.click("#compare")
        self.set("#method", "full")
        self.page.click("#clear")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "book.txt"
            path.write_text(long_text(40000))
            self.page.choose("#add", path)
            self.page.wait("!!document.querySelector('#files li')")
        self.ask("What is the pass key?")
        assert self.page.script("document.activeElement.id") == "question", "the focus stays where the question was typed"
        self.stopped_by(lambda: self.page.key("Escape", 27))
        for stop in (lambda: self.page.click("#stop"), lambda: self.page.key("Escape", 27)):
            self.page.click(".assistant .actions button")  # again
            self.stopped_by(stop)

    def leaves_an_edit_by_escape_and_goes_on(self):
        self.page.click(".assistant .actions button")
        self.page.wait("document.querySelector('#bar').value > 0 && !document.querySelector('#bar').hidden")
        self.page.click(".user .actions button")
        self.page.wait("!!document.querySelector('.user textarea')")
        self.page.key("Escape", 27)
        assert self.count(".user textarea") == 0
        assert self.count(".side.running") == 1, "the answer was stopped, too"
        self.stopped_by(lambda: self.page.click("#stop"))

    def stopped_by(self, stop):
        self.page.wait("document.querySelector('#bar').value > 0 && !document.querySelector('#bar').hidden")
        stop()
        self.finished(1)
        assert "stopped" in self.text(".side .effects"), self.text(".side .effects")
        self.page.wait("fetch('/slots').then((r) => r.json()).then((s) => s.every((one) => !one.is_processing))", 10)

    def reload(self):
        self.page.call("Page.reload")
        self.page.wait("document.querySelector('#method')?.options.length > 3")

    def is_there_after_a_reload(self):
        self.reload()
        assert self.count(".turn") == 2
        assert "book.txt" in self.text(".user .attached")

    def is_there_after_a_reload_in_the_middle_of_an_answer(self):
        self.page.click("#clear")
        self.drop(long_text(9000))
        self.set("#length", "40")
        self.ask("Which key?")
        self.page.wait("document.querySelector('#bar').value > 0 && !document.querySelector('#bar').hidden")
        self.reload()
        assert self.count(".turn") == 2, self.count(".turn")
        assert self.text(".user .text") == "Which key?", self.text(".user .text")
        assert "book.txt" in self.text(".user .attached")
        assert "stopped" in self.text(".side .effects"), self.text(".side .effects")
        self.set("#length", "40")
        self.page.click(".assistant .actions button")
        self.finished(1)
        assert "tokens/s" in self.text(".side .effects"), "it can be asked again: " + self.text(".side .effects")

    def sends_a_text_anew_that_was_stopped_on_its_way(self):
        """The first time it does not arrive before the answer is asked for again."""
        self.page.click("#clear")
        self.page.script("window.sent = []; window.plain = window.fetch; window.fetch = (path, options) => {"
                         "sent.push(path); if (path !== '/texts' || sent.filter((one) => one === path).length > 1)"
                         "return plain(path, options); return new Promise((_, fail) => options.signal.addEventListener("
                         "'abort', () => fail(new DOMException('stopped', 'AbortError')))); }; 0")
        self.drop("é" * 2048)
        assert self.text("#size") == "4 KiB", "bytes, not characters: " + self.text("#size")
        self.ask("Which key?")
        self.page.wait("sent.includes('/texts')")
        self.page.click(".assistant .actions button")
        self.finished(1)
        assert "tokens/s" in self.text(".side .effects"), self.text(".side .effects")
        assert self.page.script("sent").count("/texts") == 2, self.page.script("sent")
        self.page.script("window.fetch = plain; 0")

    def goes_dark(self):
        def shade():
            return sum(map(int, re.findall(r"\d+", self.page.script("getComputedStyle(document.body).backgroundColor"))))
        light = shade()
        for scheme in ("dark", "light"):  # as the system does, until the reader chooses
            self.page.prefer(scheme)
            self.page.wait(f"document.documentElement.dataset.theme === '{scheme}'", 10)
            assert (shade() < light / 4) == (scheme == "dark"), (scheme, light, shade())
        self.page.click("#theme")
        assert shade() < light / 4, (light, shade())
        self.picture("6-dark")
        self.reload()
        assert shade() < light / 4, "the choice is kept, whatever the system does"

    def fits_a_phone(self):
        self.page.resize(400, 800)
        width = self.page.script("document.documentElement.scrollWidth")
        assert width <= 400, width
        self.picture("7-phone")
        self.page.script("scrollTo(0, document.body.scrollHeight)")
        self.picture("8-phone-below")

    def can_be_used_without_a_mouse_or_eyes(self):
        self.page.resize(1280, 900)
        assert not self.page.nameless(), self.page.nameless()
        self.page.script("document.querySelector('#question').focus()")
        reached = []
        for _ in range(3):
            self.page.key("Tab", 9)
            reached.append(self.page.script("document.activeElement.id"))
        assert reached[:2] == ["send", "add"], reached

    def asks_for_a_key(self):
        self.page.open(self.url)
        self.page.wait("!document.querySelector('#key-field').hidden")
        assert "needs a key" in self.text("#notice"), self.text("#notice")
        self.set("#key", "wrong")
        self.page.wait("performance.getEntriesByName(location.origin + '/props').length > 1")
        assert self.count("#method option") == 0 and "needs a key" in self.text("#notice"), self.text("#notice")
        self.set("#key", "secret")
        self.page.wait("document.querySelector('#method').options.length > 3")
        assert self.text("#notice") == "", self.text("#notice")
        self.set("#length", "20")
        self.drop("The pass key is 48213.")
        self.ask("What is the pass key?")
        self.finished(1)
        assert "tokens/s" in self.text(".side .effects"), self.text(".side .effects")
        self.reload()
        assert self.page.script("document.querySelector('#key-field').hidden"), "the tab keeps it"
        self.page.problems[:] = [one for one in self.page.problems if "401" not in one]

    def run(self, steps):
        for step in steps:
            try:
                step(self)
            except Exception:
                self.picture("failed")
                print("pictures:", self.pictures)
                raise
            print("ok", step.__name__.replace("_", " "), flush=True)
        assert not self.page.problems, self.page.problems


STEPS = [PageTest.opens_and_streams, PageTest.edits_and_retries, PageTest.retries_while_it_writes,
         PageTest.reads_a_long_text_sparsely, PageTest.answers_the_second_question_at_once, PageTest.compares, PageTest.stops,
         PageTest.leaves_an_edit_by_escape_and_goes_on, PageTest.is_there_after_a_reload,
         PageTest.is_there_after_a_reload_in_the_middle_of_an_answer,
         PageTest.sends_a_text_anew_that_was_stopped_on_its_way, PageTest.goes_dark, PageTest.fits_a_phone,
         PageTest.can_be_used_without_a_mouse_or_eyes]


def try_page(program, browser, pictures, flags, steps):
    server = Server(program, "--ignore-eos", *flags)  # answers of some length
    try:
        page = devtools.Browser(browser)
        try:
            page.resize(1280, 900)
            PageTest(page, server.url, pictures).run(steps)
        finally:
            page.close()
    finally:
        server.close()


def main():
    program, pictures, browser = devtools.arguments("page-")
    try_page(program, browser, pictures, [], STEPS)
    try_page(program, browser, pictures, ["--api-key", "secret"], [PageTest.asks_for_a_key])
    return 0


if __name__ == "__main__":
    sys.exit(main())
