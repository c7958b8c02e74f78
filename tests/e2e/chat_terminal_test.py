#!/usr/bin/env python3
"""chat at a terminal: pasted lines, commands, history, typing while it reads. Usage: chat_terminal_test.py PROGRAM MODEL"""

import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

PROGRAM, MODEL = sys.argv[1:3]
PATIENCE = 1200  # seconds, for a busy machine
HAS_LIBEDIT = "libedit" in subprocess.run(["ldd", PROGRAM], text=True, capture_output=True).stdout


class Chat:
    """The program with a terminal as stdin and stderr; what it answers goes into a pipe."""

    def __init__(self, *more, model=("-m", MODEL), locale=None):
        self.terminal, slave = os.openpty()
        self.slave = slave
        environment = {name: value for name, value in os.environ.items() if name != "LANG" and not name.startswith("LC_")}
        environment |= {"TERM": "xterm", "NO_COLOR": "1", "HOME": "/nonexistent", **(locale or {})}
        self.process = subprocess.Popen([PROGRAM, "chat", *model, "--temp", "0", "-n", "4", "-t", "1", *more],
                                        stdin=slave, stderr=slave, stdout=subprocess.PIPE, env=environment,
                                        start_new_session=True)  # libedit hands signals on to the whole group
        self.shown = ""
        self.greeting = self.wait_for("> ")

    def wait_for(self, text):
        """Returns what was shown up to there, and forgets it."""
        end = time.monotonic() + PATIENCE
        while text not in self.shown:
            if time.monotonic() > end:
                raise AssertionError(f"no {text!r} in {self.shown!r}")
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.shown += os.read(self.terminal, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def type(self, text):
        os.write(self.terminal, text.encode())

    def say(self, text):
        self.type(text + "\n")
        self.wait_for("in the context")
        self.wait_for("> ")

    def command(self, text):
        self.type(text + "\n")
        return self.wait_for("\n> ")

    def wait_for_keys(self):
        """libedit takes single keys a moment after its prompt; a Ctrl-D typed before that is taken by the terminal itself."""
        end = time.monotonic() + PATIENCE
        while HAS_LIBEDIT and termios.tcgetattr(self.slave)[3] & termios.ICANON:
            if time.monotonic() > end:
                raise AssertionError("the terminal still reads whole lines")
            time.sleep(0.01)

    def echoes(self):
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def leave(self):
        self.type("/exit\n")
        out, _ = self.process.communicate(timeout=PATIENCE)
        os.close(self.terminal)
        os.close(self.slave)
        return out.decode()


class ChatTerminal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.saved = pathlib.Path(self.folder.name, "talk.json")

    def tearDown(self):
        self.folder.cleanup()

    def users_words(self, chat):
        chat.command(f"/save {self.saved}")
        return [message["content"] for message in json.loads(self.saved.read_text()) if message["role"] == "user"]

    def test_pasted_lines_are_one_message(self):
        chat = Chat()
        chat.say("first line\nsecond line\n\nthird line")
        chat.say("alone")
        self.assertEqual(self.users_words(chat), ["first line\nsecond line\n\nthird line", "alone"])
        chat.leave()

    def test_every_character_is_kept_whatever_the_locale(self):
        for locale in ({}, {"LANG": "C"}, {"LANG": "xx_XX.UTF-8"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "C.UTF-8"}):
            with self.subTest(locale=locale):
                chat = Chat(locale=locale)
                chat.say("Grüße aus Köln, 東京 😀")
                chat.say("eins – zwei\ndrei … vier")
                self.assertEqual(self.users_words(chat), ["Grüße aus Köln, 東京 😀", "eins – zwei\ndrei … vier"])
                chat.leave()

    def test_which_model_answers_is_said_before_the_first_question(self):
        chat = Chat("-c", "200000", model=())
        for words in ("no -m FILE", "beyond the 131072 tokens"):
            self.assertEqual(chat.greeting.count(words), 1, chat.greeting)
        chat.type("hello\n")
        later = chat.wait_for("in the context")
        self.assertNotIn("no -m FILE", later)
        self.assertNotIn("beyond the", later)
        chat.wait_for("> ")
        chat.leave()

    def test_commands_do_what_help_says(self):
        text = pathlib.Path(self.folder.name, "text.txt")
        text.write_text("\ufeffThe pass key is 48213.\n")
        chat = Chat()
        helped = chat.command("/help")
        for name in ("/read", "/regen", "/save", "/load", "/stats", "/clear", "/exit", "/quit"):
            self.assertIn(name, helped)
        self.assertIn("there is no /hepl", chat.command("/hepl"))
        self.assertIn("stands in front of the next message", chat.command(f"/read {text}"))
        chat.say("What is the pass key?")
        self.assertIn("KV cache", chat.command("/stats"))
        chat.say("/regen")
        self.assertEqual(self.users_words(chat), ["The pass key is 48213.\n\nWhat is the pass key?"])
        self.assertIn("the conversation begins anew", chat.command("/clear"))
        self.assertIn("nothing has been said yet", chat.command("/regen"))
        self.assertIn(f"2 messages from {self.saved}", chat.command(f"/load {self.saved}"))
        self.assertIn("cannot open", chat.command("/load /nonexistent/file"))
        chat.say("again")
        self.assertEqual(len(self.users_words(chat)), 2)
        answers = chat.leave().splitlines()
        self.assertEqual(len(answers), 3)
        self.assertEqual(answers[0], answers[1], "asked again, the most likely words are the same")

    def test_a_command_that_arrives_with_other_lines_stands_alone(self):
        chat = Chat()
        chat.type("/help\nHow many\nboats?\n")
        self.assertIn("/regen", chat.wait_for("pasted lines are one message"))
        chat.wait_for("in the context")
        chat.wait_for("> ")
        self.assertEqual(self.users_words(chat), ["How many\nboats?"])
        chat.leave()

    def test_what_the_cache_takes_is_no_part_of_less(self):
        text = pathlib.Path(self.folder.name, "long.txt")
        text.write_text("The boats were counted in the evening. " * 400)
        chat = Chat("--kv-policy", "latent", "--kv-budget", "64", "--kv-gap", "2")
        chat.command(f"/read \"{text}\"")
        chat.say("How many?")
        shown = chat.command("/stats")
        self.assertRegex(shown, r"KV cache +\d+ of \d+ tokens read, [\d.]+ \w+ beside [\d.]+ MiB")
        self.assertIn("of the whole text, which stays for later turns", shown)
        chat.leave()

    def test_kv_free_without_a_compression_is_named(self):
        chat = Chat("--kv-free")
        self.assertIn("--kv-free changes nothing here", chat.greeting)
        chat.type("/quit\n")
        chat.process.communicate(timeout=PATIENCE)
        self.assertEqual(chat.process.returncode, 0)

    def test_that_a_method_did_nothing_is_said_once(self):
        chat = Chat("--method", "entropyinfer")
        notes = []
        for message in ("hello", "and then?"):
            chat.type(message + "\n")
            chat.wait_for("in the context")
            notes.append(chat.wait_for("\n> ").count("note: the prompt was read whole"))
        self.assertEqual(notes, [1, 0])
        chat.leave()

    def test_earlier_messages_come_back(self):
        if not HAS_LIBEDIT:
            self.skipTest("built without libedit")
        chat = Chat()
        chat.say("hello")
        chat.say("\x1b[A there")  # up, then typed on
        chat.say("abc\x1b[D\x1b[Dx")  # two to the left
        chat.say("two\nlines")
        chat.say("\x1b[A of it")  # a pasted message comes back whole
        self.assertEqual(self.users_words(chat), ["hello", "hello there", "axbc", "two\nlines", "two\nlines of it"])
        chat.leave()

    def test_what_is_typed_meanwhile_stays_out_of_the_bar_and_is_not_lost(self):
        text = pathlib.Path(self.folder.name, "long.txt")
        text.write_text("The boats were counted in the evening. " * 1500)
        chat = Chat("-b", "64")
        chat.command(f"/read {text}")
        chat.type("How many?\n")
        chat.wait_for("reading the prompt [")
        self.assertFalse(chat.echoes())
        chat.type("zebra")
        shown = chat.wait_for("in the context")
        self.assertNotIn("zebra", shown)
        chat.wait_for("> ")
        chat.say("crossing")
        self.assertEqual(self.users_words(chat)[1], "zebracrossing")
        chat.leave()

    def test_a_prompt_that_was_cut_off_is_read_on_when_asked(self):
        text = pathlib.Path(self.folder.name, "long.txt")
        text.write_text("The boats were counted in the evening. " * 1500)
        chat = Chat("-b", "64")
        chat.command(f"/read {text}")
        chat.type("How many?\n")
        chat.wait_for("reading the prompt [")
        chat.process.send_signal(signal.SIGINT)
        self.assertRegex(chat.wait_for("; /regen reads on"), r"interrupted after [1-9]\d* of \d+ prompt tokens;")
        chat.wait_for("> ")
        chat.type("/regen\n")
        self.assertRegex(chat.wait_for("in the context"), r"tokens read \([1-9]\d* cached\)")
        chat.wait_for("> ")
        self.assertTrue(self.users_words(chat)[0].endswith("\n\nHow many?"))
        chat.leave()

    def test_who_leaves_leaves_a_line_of_its_own_to_the_shell(self):
        for leaving, code in (("\x04", 0), (signal.SIGINT, 130)):
            chat = Chat()
            chat.wait_for_keys()
            chat.type(leaving) if code == 0 else chat.process.send_signal(leaving)
            chat.process.communicate(timeout=PATIENCE)
            self.assertEqual(chat.process.returncode, code)
            self.assertTrue(chat.wait_for("\n").endswith("\n"))

    def test_ctrl_c_forgets_a_half_typed_message_first(self):
        if not HAS_LIBEDIT:
            self.skipTest("built without libedit")
        chat = Chat()
        for typed, shown in (("half a mess", "mess"), ("moved\x1b[D\x1b[D", "moved"), ("one\\\nhalf of ano", "ano")):
            chat.wait_for_keys()
            chat.type(typed)
            chat.wait_for(shown)
            chat.type("\x03")
            self.assertIn("^C", chat.wait_for("\n> "))
        chat.say("whole")
        self.assertEqual(self.users_words(chat), ["whole"])
        chat.wait_for_keys()
        chat.type("\x03")
        chat.process.communicate(timeout=PATIENCE)
        self.assertEqual(chat.process.returncode, 130)

    def test_a_full_context_is_said(self):
        chat = Chat("-c", "40", "-n", "-1", "--ignore-eos")
        chat.type("hello\n")
        chat.wait_for("in the context")
        self.assertIn("the context of 40 tokens is full", chat.wait_for("\n> "))
        chat.leave()

    def test_a_program_that_is_stopped_leaves_a_terminal_that_echoes(self):
        text = pathlib.Path(self.folder.name, "long.txt")
        text.write_text("The boats were counted in the evening. " * 12000)
        chat = Chat("-b", "64")
        chat.command(f"/read {text}")
        chat.type("How many?\n")
        chat.wait_for("reading the prompt [")
        self.assertFalse(chat.echoes())
        chat.process.send_signal(signal.SIGSTOP)
        chat.process.send_signal(signal.SIGINT)
        chat.process.send_signal(signal.SIGTERM)
        chat.process.send_signal(signal.SIGCONT)
        self.assertEqual(chat.process.wait(timeout=PATIENCE), 130)
        self.assertTrue(chat.echoes())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
