#!/usr/bin/env python3
"""Stands in for llama-server: starts `entropyinfer serve` with what llama-server's tests say on its command line.

Environment: EI_COMPAT_BIN, the program; EI_COMPAT_MODEL, the model file that stands for every --hf-repo.
"""
import os
import sys

WITHOUT_VALUE_DROPPED = {"--offline", "--jinja", "--no-jinja", "--kv-unified", "--cont-batching",
                         "--backend_sampling"}
WITH_VALUE_DROPPED = {"--hf-repo", "--hf-file"}


def translate(words):
    """The same wishes in our flags; what we do not know is passed on, and refused by the program itself."""
    flags = []
    slots, context, template = 1, None, False
    words = list(words)
    while words:
        word = words.pop(0)
        if word in WITHOUT_VALUE_DROPPED:
            continue
        if word in WITH_VALUE_DROPPED:
            words.pop(0)
            continue
        if word == "--ctx-size":
            context = int(words.pop(0))
            continue
        if word == "--parallel":
            slots = int(words[0])
        if word in ("--chat-template", "--chat-template-file"):
            template = True
        flags.append(word)
    if context is not None:
        # llama-server divides its context among its slots; ours is what one request may hold.
        shared = "--kv-unified" in sys.argv
        flags += ["--ctx-size", str(context if shared else context // slots)]
    if not template:
        flags += ["--chat-template", "chatml"]  # its choice for a model without a template
    return flags


def main():
    program = os.environ["EI_COMPAT_BIN"]
    arguments = [program, "serve", "--model", os.environ["EI_COMPAT_MODEL"], "--threads", "1"]
    os.execv(program, arguments + translate(sys.argv[1:]))


if __name__ == "__main__":
    main()
