"""EntropyInfer from Python: GGUF models on long prompts.

    engine = entropyinfer.Engine("model.gguf")
    for piece in engine.generate("Once upon a time", max_tokens=50, stream=True):
        print(piece, end="", flush=True)

Other threads run while the engine computes. Errors are `Error` and its kinds.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Union, overload

import numpy as np
from numpy.typing import NDArray

from ._core import Answer, Error, GenerateOptions, InterruptedError, ModelError, OutOfMemoryError, Session, UsageError
from . import _core

__all__ = ["Answer", "Engine", "Error", "InterruptedError", "ModelError", "OutOfMemoryError", "Session", "UsageError",
           "devices", "methods"]
__version__ = _core.version()

Prompt = Union[str, Sequence[int]]
Messages = Sequence[Mapping[str, str]]  # {"role": "user", "content": "..."}


def methods() -> dict[str, str]:
    """The methods by name, with a line about each."""
    return dict(_core.methods())


def devices() -> dict[str, str]:
    """The same of what `device` may be."""
    return dict(_core.devices())


class Engine:
    """A loaded model. May be used by several threads at once."""

    def __init__(self, path: str | os.PathLike[str], *, device: str = "cpu", threads: int = 0) -> None:
        self._core = _core.Engine.load(os.fspath(path), device, threads)
        self.info: dict[str, Any] = self._core.info

    def tokenize(self, text: str, *, add_bos_eos: bool = True, parse_special: bool = False) -> list[int]:
        return self._core.tokenize(text, add_bos_eos, parse_special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Bytes that are no whole characters become replacement characters."""
        return self._core.detokenize(list(map(int, tokens)), special).decode("utf-8", errors="replace")

    def chat_tokens(self, messages: Messages, *, chat_template: str = "") -> list[int]:
        """Messages as a prompt that an answer follows."""
        return self._core.chat_tokens([(m["role"], m["content"]) for m in messages], chat_template)

    def session(self, *, method: str = "full", method_options: str = "", context: int = 0, batch: int = 0,
                key_type: str = "", value_type: str = "", kv_free: bool = False, keep_plan: bool = False) -> Session:
        """One text and its KV cache: for conversations, and for work on single tokens.

        `kv_free`: a method that compresses the cache gives its memory back, and later questions find only what it kept.
        """
        return self._core.new_session(context, batch, method, method_options, key_type, value_type, kv_free, keep_plan)

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False, session: Session | None = None,
                 method: str = "full", method_options: str = "", **sampling: Any) -> str: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], session: Session | None = None, method: str = "full",
                 method_options: str = "", **sampling: Any) -> Iterator[str]: ...
    def generate(self, prompt: Prompt, *, stream: bool = False, session: Session | None = None, method: str = "full",
                 method_options: str = "", **sampling: Any) -> str | Iterator[str]:
        """The text that follows the prompt; with `stream` piece by piece.

        `session`: reads behind what it holds. `sampling`: fields of GenerateOptions (max_tokens, temp, seed, top_k,
        top_p, min_p, repeat_penalty, stop, grammar, json_schema, ignore_eos, whole_prompt). Without temp the most
        likely token is taken.
        """
        session = self._session_for(session, method, method_options)
        tokens = self._tokens(prompt)
        options = _options(sampling)
        return _stream(session, tokens, options) if stream else _answer(session, tokens, options).text

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False, session: Session | None = None,
             method: str = "full", method_options: str = "", chat_template: str = "", **sampling: Any) -> str: ...
    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], session: Session | None = None, method: str = "full",
             method_options: str = "", chat_template: str = "", **sampling: Any) -> Iterator[str]: ...
    def chat(self, messages: Messages, *, stream: bool = False, session: Session | None = None, method: str = "full",
             method_options: str = "", chat_template: str = "", **sampling: Any) -> str | Iterator[str]:
        """The answer to a conversation. What `session` holds of it is not read again."""
        session = self._session_for(session, method, method_options)
        tokens = self.chat_tokens(messages, chat_template=chat_template)
        options = _options({"whole_prompt": True, **sampling})
        return _stream(session, tokens, options) if stream else _answer(session, tokens, options).text

    def logits(self, prompt: Prompt, *, method: str = "full", method_options: str = "") -> NDArray[np.float32]:
        """[tokens, vocab]: what every token of the prompt predicts."""
        return self.session(method=method, method_options=method_options).evaluate(self._tokens(prompt))

    def plans(self, prompt: Prompt, *, method: str = "entropyinfer",
              method_options: str = "threshold=0") -> list[dict[str, Any]]:
        """What the method measured and chose in each layer, as arrays [kv_heads, segments]: entropy, row_entropy, far,
        sink, budget, read; and segment (its number in the text) and dense [segments], blocks [kv_heads][segments]: the
        order of entropies() and of --dump-plan. Empty for a layer that read everything. The options let the method
        choose from the beginning, not only behind its threshold."""
        session = self.session(method=method, method_options=method_options, keep_plan=True)
        session.prefill(self._tokens(prompt), _go_on)
        return [session.layer_plan(layer, self.info["kv_heads"]) for layer in range(self.info["layers"])]

    def entropies(self, prompt: Prompt, *, method: str = "entropyinfer",
                  method_options: str = "threshold=0") -> NDArray[np.float64]:
        """[layers, kv_heads, segments]: entropy of each head's attention to distant text, in nats; NaN where nothing
        was measured yet."""
        plans = self.plans(prompt, method=method, method_options=method_options)
        segments = max((len(plan["segment"]) for plan in plans if plan), default=0)
        entropies = np.full((len(plans), self.info["kv_heads"], segments), np.nan)
        for layer, plan in enumerate(plans):
            if plan:
                entropies[layer, :, :len(plan["segment"])] = plan["entropy"]
        return entropies

    def _session_for(self, session: Session | None, method: str, method_options: str) -> Session:
        """The one that was given, or one for a single answer: nobody will ask it again."""
        if session is None:
            return self.session(method=method, method_options=method_options, kv_free=True)
        if method != "full" or method_options:
            raise UsageError("a session has its method already: give it to session()")
        return session

    def _tokens(self, prompt: Prompt) -> list[int]:
        return self.tokenize(prompt) if isinstance(prompt, str) else list(map(int, prompt))


def _go_on(*_: Any) -> bool:
    """Called now and then while the engine computes, so that Python sees a Ctrl-C."""
    return True


def _options(sampling: Mapping[str, Any]) -> GenerateOptions:
    options = GenerateOptions()
    for name, value in sampling.items():
        if not hasattr(options, name) or name.startswith("_"):
            raise TypeError(f"no such option: {name}")
        setattr(options, name, value)
    return options


def _answer(session: Session, tokens: list[int], options: GenerateOptions) -> Answer:
    options.on_text = options.on_text or _go_on
    options.on_progress = options.on_progress or _go_on
    return session.generate(tokens, options)


def _stream(session: Session, tokens: list[int], options: GenerateOptions) -> Iterator[str]:
    """Generates in a thread of its own. An iterator that is closed early stops it."""
    pieces: queue.Queue[str | BaseException | None] = queue.Queue()
    closed = threading.Event()
    seen = options.on_text

    def on_text(text: str) -> bool:
        pieces.put(text)
        return not closed.is_set() and (seen is None or seen(text))

    def work() -> None:
        try:
            session.generate(tokens, options)
            pieces.put(None)
        except BaseException as error:  # raised again where the pieces are read
            pieces.put(error)

    options.on_text = on_text
    options.on_progress = options.on_progress or (lambda done, total: not closed.is_set())
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        closed.set()
        worker.join()
