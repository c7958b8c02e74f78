#!/usr/bin/env python3
"""What `eval --out` writes for a browser, in a real one: heat maps, charts, tables, light, dark, 400 pixels.

Usage: report_test.py --program BIN [--pictures DIR]
Needs Chromium (Debian: chromium); without it the test says so and is skipped (exit code 77).
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import devtools

METHODS = ["full", "snapkv:kv-budget=10%"]
LENGTHS = [1024, 2048]
DEPTHS = 3
TASKS = ["num", "quote"]  # a single fact each
CHOICE = "longbench2"  # four choices: the letter that is written, and the likeliest
PANELS = {"#methods": "the methods", "#by-density": "score against density", "#by-bytes": "score against KV bytes",
          "#tasks": "the tasks", "#needles": "the heat maps"}
LEAST_CONTRAST = 4.5  # WCAG AA, of text of this size

# Every text that is shown with the colour behind it: the fill of the shape it stands on, or the nearest background.
CONTRASTS = """(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
    const c = rgb[i] / 255;
    return sum + weight * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
  const behind = (element) => {
    const box = element.tagName === 'text' && element.parentElement.querySelector(':scope > rect');
    if (box) return numbers(getComputedStyle(box).fill);
    for (let at = element; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const all = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility() || ['SCRIPT', 'title'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const a = light(numbers(element.tagName === 'text' ? style.fill : style.color)), b = light(behind(element));
    all.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.tagName, node.textContent.trim().slice(0, 40)]);
  }
  return all;
})()"""


def write_choices(path):
    with open(path, "w") as file:
        for letter in "ABCD"[:DEPTHS]:
            item = {"context": "The boat went down the river to the old mill. " * 60, "question": "Where did the boat go?",
                    "answer": letter, **{f"choice_{c}": f"to the {c.lower()}-mill" for c in "ABCD"}}
            file.write(json.dumps(item) + "\n")


def make_report(program, folder):
    write_choices(folder / "choices.jsonl")
    tasks = [*TASKS, f"{CHOICE}:{folder / 'choices.jsonl'}"]
    command = [program, "eval", "--tasks", ",".join(tasks), "--lengths", ",".join(map(str, LENGTHS)), "-n", str(DEPTHS),
               "--depths", str(DEPTHS), "--methods", "full,snapkv", "--kv-budget", "10%", "-t", "1", "--out", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # A model that wrote another letter than the likeliest, so that the two scores are different ones.
    conditions, *lines = (folder / "items.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    for result in results:
        if "likelihood" in result:
            result["likelihood"] = int(result["method"] == METHODS[0] or result["length"] == LENGTHS[0])
    lines = [json.dumps(result, separators=(",", ":"), ensure_ascii=False) for result in results]
    (folder / "items.jsonl").write_text("\n".join([conditions, *lines, ""]))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return results


class ReportTest:
    def __init__(self, page, file, results, pictures):
        self.page, self.file, self.results, self.pictures = page, file, results, pathlib.Path(pictures)

    def open(self, theme):
        self.page.resize(1280, 900)
        self.page.open(f"{self.file.as_uri()}?theme={theme}")
        self.page.wait("!!document.querySelector('#tasks table')")

    def list(self, selector, value):
        return self.page.script(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => {value})")

    def legend(self, panel):
        return " ".join(self.list(panel, "e.closest('section').querySelector('.legend').textContent")[0].split())

    def whole_picture(self, name):
        self.page.resize(1280, self.page.script("document.documentElement.scrollHeight"))
        self.page.picture(self.pictures / f"report-{name}.png")

    def shows_every_panel(self):
        for selector, what in PANELS.items():
            width, height = self.list(selector, "[e.getBoundingClientRect().width, e.getBoundingClientRect().height]")[0]
            assert width > 200 and height > 60, f"{what}: {width} x {height}"
            assert self.list(selector, "e.checkVisibility({opacityProperty: true, visibilityProperty: true})")[0], what
        assert self.page.script("performance.getEntriesByType('resource').length") == 0, "nothing is loaded"

    def tells_on_how_many_items_compression_fired(self):
        heads = self.list("#methods th", "e.textContent")
        shown = self.list(f"#methods td:nth-child({heads.index('fired') + 1})", "[e.textContent, e.checkVisibility()]")
        count = [[sum(r["kv_acted"] for r in self.results if r["method"] == m),
                  sum(r["method"] == m for r in self.results)] for m in METHODS]
        assert count == [[0, 18], [18, 18]], count
        assert shown == [[f"{fired} of {items}", True] for fired, items in count], shown

    def shows_the_score_of_every_task(self):
        rows = self.list("#tasks tr:not(:first-child)", "[...e.children].map((c) => c.textContent)")
        wanted = []
        for task in [*TASKS, CHOICE]:
            for length in LENGTHS:
                of = [[r for r in self.results if (r["task"], r["length"], r["method"]) == (task, length, m)] for m in METHODS]
                for name, key in [("", "score"), (", likeliest letter", "likelihood")][:1 + (task == CHOICE)]:
                    means = [100 * sum(r[key] for r in results) / len(results) for results in of]
                    wanted.append([task + name, str(length), str(DEPTHS), *means])
        assert [row[:3] for row in rows] == [row[:3] for row in wanted], rows
        for row, want in zip(rows, wanted):  # written with one digit
            assert all(abs(float(shown) - score) < 0.051 for shown, score in zip(row[3:], want[3:])), (row, want)
        assert "compression fired on" in self.list("#tasks td[title]", "e.title")[0]
        assert "Multiple choice has two rows" in self.legend("#tasks")

    def says_which_bytes_are_kept(self):
        legend = self.legend("#methods")
        assert "bytes and slots of all layers" in legend and "sliding window" in legend, legend

    def marks_every_method_where_it_belongs(self):
        for chart in ("#by-density", "#by-bytes"):
            names = self.list(f"{chart} g title", "e.textContent")
            assert [name.split(": ")[0] for name in names] == METHODS, names
            within = self.list(f"{chart} g > :last-child", "(() => { const b = e.getBoundingClientRect(), s = e.closest("
                               "'svg').getBoundingClientRect(); return b.width > 4 && b.left >= s.left && b.right <= s.right "
                               "&& b.top >= s.top && b.bottom <= s.bottom; })()")
            assert within == [True] * len(METHODS), f"{chart}: {within}"
        at = self.list("#by-bytes g > :last-child", "e.getBoundingClientRect().x")
        assert at[1] < at[0] - 50, f"a tenth of the cache stands far left of all of it: {at}"

    def maps_needles_by_depth_and_length(self):
        cells = self.list("#needles rect", "getComputedStyle(e).fill")
        depths = sorted({round(10 * result["depth"]) for result in self.results if result["depth"] >= 0})
        assert len(depths) >= DEPTHS, depths
        assert len(cells) == len(METHODS) * len(LENGTHS) * len(depths), len(cells)
        assert self.list("#needles h3", "e.textContent") == METHODS
        labels = self.list("#needles > div:first-child text[text-anchor=end]", "e.textContent")
        assert labels == [f"{10 * depth} %" for depth in depths], labels
        colors = {}
        for score, fill in self.list("#needles g", "[e.querySelector('text')?.textContent ?? 'none', getComputedStyle("
                                     "e.querySelector('rect')).fill]"):
            assert colors.setdefault(score, fill) == fill or 0 < int(score) < 100, "one score has one colour"
        assert "100" in colors and len(set(colors.values())) == len(colors) > 1, f"different scores differ: {colors}"
        both = self.list("#needles title", "e.textContent")
        self.page.click("#needle-tasks button:last-child")
        assert self.list("#needle-tasks button[aria-pressed=true]", "e.textContent") == TASKS[-1:]
        assert self.list("#needles title", "e.textContent") != both, "one task only"
        self.page.click("#needle-tasks button:first-child")

    def can_be_read(self):
        contrasts = self.page.script(CONTRASTS)
        assert len(contrasts) > 80, f"too few texts were found: {len(contrasts)}"
        faint = sorted(one for one in contrasts if one[0] < LEAST_CONTRAST)
        assert not faint, f"{len(faint)} of {len(contrasts)} texts are faint: {faint[:5]}"

    def can_be_read_whatever_the_scores(self, theme):
        before, data, after = re.split('(?<=id="data">)(.*?)(?=</script>)', self.file.read_text(), flags=re.DOTALL)
        report = json.loads(data)
        task, needle = report["tasks"][0], report["needles"][0]
        report["tasks"], report["needles"] = [], []
        for score in range(0, 101):
            cells = [dict(cell, score=dict(cell["score"], mean=score / 100)) for cell in task["cells"]]
            report["tasks"].append(dict(task, length=score, cells=cells))
            report["needles"].append(dict(needle, depth=score / 100, score=score / 100))
        every = self.file.parent / "every_score.html"
        every.write_text(before + json.dumps(report) + after)
        self.page.open(f"{every.as_uri()}?theme={theme}")
        assert len(self.list("#needles rect", "1")) >= 101
        self.can_be_read()

    def changes_its_theme(self):
        def shade():
            return sum(self.page.script("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"))
        for wanted in ("light", "dark"):
            self.page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": wanted}])
            self.page.open(self.file.as_uri())
            assert (shade() < 200) == (wanted == "dark"), f"{wanted} is what the reader prefers: {shade()}"
        cell = self.list("#tasks td[title]", "getComputedStyle(e).backgroundColor")[0]
        self.page.click("#theme")
        assert shade() > 600, shade()
        assert self.list("#tasks td[title]", "getComputedStyle(e).backgroundColor")[0] != cell, "drawn again"
        self.page.call("Emulation.setEmulatedMedia", features=[])

    def fits_a_phone(self):
        self.page.resize(400, 800)
        width = self.page.script("document.documentElement.scrollWidth")
        self.page.picture(self.pictures / "report-phone.png")
        assert width <= 400, width

    def run(self):
        in_a_theme = (self.shows_every_panel, self.tells_on_how_many_items_compression_fired,
                      self.shows_the_score_of_every_task, self.says_which_bytes_are_kept,
                      self.marks_every_method_where_it_belongs, self.maps_needles_by_depth_and_length, self.can_be_read)
        for theme in ("light", "dark"):
            self.open(theme)
            self.whole_picture(theme)
            for step in in_a_theme:
                step()
                print("ok", theme, step.__name__.replace("_", " "), flush=True)
            self.can_be_read_whatever_the_scores(theme)
            print("ok", theme, "can be read whatever the scores", flush=True)
        for step in (self.changes_its_theme, self.fits_a_phone):
            step()
            print("ok", step.__name__.replace("_", " "), flush=True)
        assert not self.page.problems, self.page.problems


def main():
    program, pictures, browser = devtools.arguments("report-")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results = make_report(program, folder)
        page = devtools.Browser(browser)
        try:
            ReportTest(page, folder / "report.html", results, pictures).run()
        finally:
            page.close()
            print("pictures:", pictures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
