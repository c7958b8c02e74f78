#!/usr/bin/env python3
"""The Python module with the model that ships with the program. Usage: module_test.py SOURCE"""

import _thread
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import entropyinfer
import numpy as np

SOURCE = pathlib.Path(sys.argv[1])
MODEL = SOURCE / "assets" / "needle-14m-128k-q8_0.gguf"
TEXT = (SOURCE / "docs" / "design.md").read_text()


class Module(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = entropyinfer.Engine(MODEL, threads=1)

    def test_pieces_of_a_stream_are_the_text(self):
        whole = self.engine.generate("Once upon a time", max_tokens=20, ignore_eos=True)
        pieces = list(self.engine.generate("Once upon a time", max_tokens=20, ignore_eos=True, stream=True))
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces), whole)

    def test_a_stream_that_is_closed_ends_and_its_session_goes_on(self):
        session = self.engine.session()
        stream = self.engine.generate("Once", session=session, ignore_eos=True, stream=True)
        next(stream)
        stream.close()
        self.assertLess(session.position, 1000)
        held = session.position
        self.engine.generate("more", session=session, max_tokens=1, ignore_eos=True)
        self.assertGreater(session.position, held)

    def test_a_session_reads_of_a_conversation_what_is_new(self):
        chatml = {"chat_template": "chatml", "max_tokens": 4, "ignore_eos": True}
        session = self.engine.session()
        messages = [{"role": "user", "content": TEXT[:2000]}]
        answer = self.engine.chat(messages, session=session, **chatml)
        first = session.stats["prompt_tokens"]
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}]
        self.engine.chat(messages, session=session, **chatml)
        self.assertLess(session.stats["prompt_tokens"] - first, first / 4)

    def test_a_session_keeps_its_text_unless_its_memory_is_given_back(self):
        tokens = self.engine.tokenize(TEXT[:2000])
        for kv_free in (False, True):
            session = self.engine.session(method="snapkv", method_options="kv-budget=64", kv_free=kv_free)
            self.engine.generate(tokens, session=session, max_tokens=2, ignore_eos=True)
            self.assertEqual(session.stats["compressions"], 1)
            if kv_free:
                with self.assertRaises(entropyinfer.UsageError):
                    session.truncate(len(tokens) // 2)
            else:
                session.truncate(len(tokens) // 2)

    def test_tokens_become_text_again(self):
        tokens = self.engine.tokenize("Grüße, 世界", add_bos_eos=False)
        self.assertEqual(self.engine.detokenize(tokens), "Grüße, 世界")
        self.assertEqual(self.engine.detokenize(np.array(tokens)), "Grüße, 世界")

    def test_methods_have_a_line_each(self):
        self.assertLessEqual({"full", "entropyinfer"}, set(entropyinfer.methods()))
        self.assertTrue(all(entropyinfer.methods().values()))
        self.assertIn("cpu", entropyinfer.devices())

    def test_logits_are_those_of_every_token(self):
        tokens = self.engine.tokenize(TEXT[:500])
        logits = self.engine.logits(tokens)
        self.assertEqual((logits.shape, logits.dtype), ((len(tokens), self.engine.info["vocab"]), np.float32))
        session = self.engine.session()
        session.prefill(tokens)
        np.testing.assert_array_equal(session.logits(), logits[-1])
        greedy = self.engine.generate(tokens, max_tokens=1, ignore_eos=True)
        self.assertEqual(self.engine.detokenize([int(logits[-1].argmax())]), greedy)

    def test_entropies_and_plans_of_a_prompt(self):
        tokens = self.engine.tokenize(TEXT)[:6000]
        plans = self.engine.plans(tokens)
        entropies = self.engine.entropies(tokens)
        info = self.engine.info
        self.assertEqual(entropies.shape[:2], (info["layers"], info["kv_heads"]))
        self.assertGreater(entropies.shape[2], 5)
        self.assertTrue(np.nanmax(entropies) > 0)
        self.assertTrue(np.isnan(entropies[:, :, 0]).all(), "nothing lies before the first segment")
        plan = plans[-1]
        self.assertEqual(plan["budget"].shape, entropies.shape[1:])
        for layer, one in enumerate(plans):
            np.testing.assert_array_equal(one["entropy"], entropies[layer, :, :len(one["segment"])])
        sparse = np.flatnonzero(plan["dense"] == 0)
        self.assertGreater(len(sparse), 0)
        for head in range(info["kv_heads"]):
            blocks = plan["blocks"][head][sparse[0]]
            self.assertEqual(len(blocks) * plan["block_tokens"], plan["read"][head, sparse[0]])
            self.assertTrue(np.all(np.diff(blocks) > 0))
        dense = np.flatnonzero(plan["dense"])
        np.testing.assert_array_equal(plan["read"][:, dense], np.broadcast_to(
            plan["segment"][dense] * plan["segment_tokens"], (info["kv_heads"], len(dense))))

    def test_other_threads_run_meanwhile(self):
        turns = []
        stop = threading.Event()
        other = threading.Thread(target=lambda: [turns.append(1) or time.sleep(0.001) for _ in iter(stop.is_set, True)],
                                 daemon=True)
        other.start()
        before = len(turns)
        self.engine.session(batch=4096).prefill(self.engine.tokenize(TEXT)[:4000])
        self.assertGreater(len(turns) - before, 20)
        stop.set()
        other.join()

    def test_ctrl_c_ends_an_answer(self):
        threading.Timer(0.3, _thread.interrupt_main).start()
        with self.assertRaises(KeyboardInterrupt):
            self.engine.generate("Once", ignore_eos=True)

    def test_mistakes_are_errors_of_their_kind(self):
        with self.assertRaises(entropyinfer.UsageError):
            self.engine.session(method="magic")
        with self.assertRaises(entropyinfer.Error):
            entropyinfer.Engine("nowhere.gguf")
        with self.assertRaises(entropyinfer.ModelError):
            entropyinfer.Engine(__file__)
        with self.assertRaises(entropyinfer.UsageError):
            self.engine.generate("x", session=self.engine.session(), method="snapkv")
        with self.assertRaises(TypeError):
            self.engine.generate("x", temperture=1)
        with self.assertRaises(ZeroDivisionError):
            self.engine.generate("x", max_tokens=3, ignore_eos=True, on_text=lambda text: 1 / 0)

    def test_the_types_are_there(self):
        use = ("import entropyinfer\n"
               "engine = entropyinfer.Engine('m')\n"
               "text: str = engine.generate('x')\n"
               "for piece in engine.generate('x', stream=True): piece.upper()\n"
               "wrong: int = engine.generate('x')\n")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "use.py")
            path.write_text(use)
            done = subprocess.run([sys.executable, "-m", "mypy", path], text=True, capture_output=True, cwd=folder)
        self.assertIn("Found 1 error", done.stdout)
        self.assertIn("use.py:5", done.stdout)

    def test_the_example_draws_a_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder, "entropies.png")
            subprocess.run([sys.executable, SOURCE / "examples" / "plot_entropies.py", MODEL,
                            SOURCE / "docs" / "methods.md", picture], check=True)
            self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
