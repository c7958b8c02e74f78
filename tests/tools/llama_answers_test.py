#!/usr/bin/env python3
"""bench/llama_answers with two fake programs: which items it judges, and that one task is enough to fail."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Dumps the items of the plan beside it and scores an answer 1 where it is the item's gold one. With `--device ggml` it
# answers with what the plan says of that.
OURS = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
flag = lambda name: words[words.index(name) + 1]
plan = json.loads((pathlib.Path(__file__).parent / "plan.json").read_text())
if "--dump-items" in words:
    keys = ("item", "task", "length", "max_new_tokens", "prompt", "prompt_is_exact", "turns")
    lines = [json.dumps({{key: item[key] for key in keys}}) for item in plan]
    pathlib.Path(flag("--dump-items")).write_text("\\n".join(lines) + "\\n")
    sys.exit(0)
theirs = {{}}
exact = flag("--device") == "ggml"
for line in [] if exact else pathlib.Path(flag("--predictions")).read_text().splitlines():
    line = json.loads(line)
    theirs[line["item"]] = line["prediction"]
folder = pathlib.Path(flag("--out"))
folder.mkdir()
lines = ["{{}}"]
for item in plan:
    if exact and (item["task"] != flag("--tasks") or item["length"] != int(flag("--lengths"))):
        continue
    answers = {{"full": item["exact"] if exact else item["ours"]}}
    if item["item"] in theirs:
        answers["llama.cpp"] = theirs[item["item"]]
    for method, answer in answers.items():
        lines.append(json.dumps({{"item": item["item"], "method": method, "predictions": [answer],
                                 "score": float("right" in answer)}}))
(folder / "items.jsonl").write_text("\\n".join(lines) + "\\n")
print("the summary")
"""
# Answers what the prompt says behind its last colon.
THEIRS = """#!{python}
import pathlib, sys
words = sys.argv[1:]
text = pathlib.Path(words[words.index("-f") + 1]).read_text()
print(text.rstrip("\\n").split(":")[-1] + " [end of text]\\n")
"""


def item(task, number, ours="right", theirs="right", length=1024, exact=True, turns=1, with_ggml=None):
    return {"item": f"{task}/{length}/{number}", "task": task, "length": length, "max_new_tokens": 8, "ours": ours,
            "exact": ours if with_ggml is None else with_ggml, "prompt": f"question {number}:{theirs}",
            "prompt_is_exact": exact, "turns": [{}] * turns}


class LlamaAnswers(unittest.TestCase):
    def compare(self, plan, *words):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for program, text in (("entropyinfer", OURS), ("llama-completion", THEIRS)):
                (folder / program).write_text(text.format(python=shutil.which("python3")))
                (folder / program).chmod(0o755)
            (folder / "plan.json").write_text(json.dumps(plan))
            done = subprocess.run([sys.executable, "-B", ROOT / "bench/llama_answers", "--completion",
                                   folder / "llama-completion", "--program", folder / "entropyinfer", "--out",
                                   folder / "out", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_passes_what_scores_the_same(self):
        code, text = self.compare([item("num", 0), item("num", 1, "wrong", "false"), item("list", 0)])
        self.assertEqual(code, 0, text)
        self.assertIn("the summary", text)
        self.assertIn("ok   num 1024: ours 50.0, llama.cpp 50.0; 1 of 2 answers word for word the same\n", text)
        self.assertIn("3 items of 2 tasks and lengths: ours 66.7, llama.cpp 66.7; every one scores the same", text)

    def test_fails_one_task_among_many_that_agree(self):
        plan = [item("num", number) for number in range(101)] + [item("list", 0, "right", "wrong")]
        code, text = self.compare(plan)  # less than a point over all
        self.assertEqual(code, 1)
        self.assertIn("FAIL list 1024: ours 100.0, llama.cpp 0.0", text)
        self.assertIn("not the same: list 1024", text)

    def test_fails_tasks_whose_differences_cancel_out(self):
        code, text = self.compare([item("num", 0, "right", "wrong"), item("list", 0, "wrong", "right")])
        self.assertEqual(code, 1)
        self.assertIn("ours 50.0, llama.cpp 50.0; not the same: num 1024, list 1024", text)

    def test_fails_lengths_whose_differences_cancel_out(self):
        code, text = self.compare([item("num", 0, "right", "wrong"), item("num", 0, "wrong", "right", length=2048)])
        self.assertEqual(code, 1)
        self.assertIn("not the same: num 1024, num 2048", text)

    def test_lets_libllamas_roundings_settle_a_difference(self):
        tie = item("vt", 1, "wrong", "right", with_ggml="right")
        code, text = self.compare([item("num", 0), item("vt", 0), tie])
        self.assertEqual(code, 0, text)
        self.assertIn("ok   vt 1024: ours 50.0, llama.cpp 100.0; 1 of 2 answers word for word the same; with libllama's "
                      "roundings ours 100.0, 2 word for word\n", text)
        self.assertIn("every one scores the same, vt 1024 with libllama's roundings", text)
        # Rounding does not excuse what differs with libllama's own steps, nor the other task beside it.
        code, text = self.compare([tie, item("list", 0, "wrong", "right")])
        self.assertEqual(code, 1)
        self.assertIn("FAIL list 1024: ours 0.0, llama.cpp 100.0; 0 of 1 answers word for word the same; with libllama's "
                      "roundings ours 0.0, 0 word for word\n", text)
        self.assertIn("not the same: list 1024, vt 1024 with libllama's roundings", text)

    def test_allows_what_it_is_told_to(self):
        plan = [item("num", 0, "right", "wrong"), *[item("num", number) for number in range(1, 4)]]
        for tolerance, code in (("24.9", 1), ("25", 0)):
            self.assertEqual(self.compare(plan, "--tolerance", tolerance)[0], code, tolerance)

    def test_judges_no_prompt_of_other_tokens(self):
        other = item("num", 1, "right", "wrong", exact=False)
        code, text = self.compare([item("num", 0), other])
        self.assertEqual(code, 0, text)
        self.assertIn("1 of 1 answers word for word the same, 1 left out", text)
        code, text = self.compare([item("list", 0), other])
        self.assertEqual(code, 1)
        self.assertIn("FAIL num 1024: no item to compare", text)

    def test_says_which_tasks_need_a_session(self):
        chat = item("chat", 0, "right", "wrong", turns=4)
        code, text = self.compare([item("num", 0), chat])
        self.assertEqual(code, 0, text)
        self.assertIn("left out, because several turns need a session: chat\n", text)
        code, text = self.compare([chat])
        self.assertEqual(code, 1)
        self.assertIn("nothing was compared", text)


if __name__ == "__main__":
    unittest.main()
