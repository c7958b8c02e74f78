#!/usr/bin/env python3
"""Rules about the text of the checkout: no machine paths, no registry hosts, no left-over markers, files of one idea,
links that lead somewhere, no symbolic links, lists that a test iterates."""

import re
import sys

import tree

MAX_LINES = 400
# Files that are longer than MAX_LINES for a reason.
LONG_FILES = {}
BINARY_SUFFIXES = (".gguf", ".bin", ".png", ".jpg", ".xz", ".gz", ".pyc")
# Written in pieces, so that this file does not find itself.
FORBIDDEN = [
    (re.compile(r"(?<![\w.$}/-])/(work|root|home|Users)/" + r"[\w.]"), "a path of one machine"),
    (re.compile(r"\b(pypi|files\.python" + r"hosted|hugging" + r"face|registry\.npm" + r"js)\.(org|co)\b"),
     "a registry's host name; pip's configuration decides where packages come from"),
    (re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"), "a left-over marker"),
]
LIST = re.compile(r"^std::span<const \w+> (\w+)\(\);", re.MULTILINE)
# Lists that a test walks through another function.
ITERATED_THROUGH = {"families": "architecture_names"}
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def check_text(name, text):
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        problems += [f"{name}:{number}: {why}" for pattern, why in FORBIDDEN if pattern.search(line)]
    return problems


def check_length(name, text):
    lines = text.count("\n")
    if lines <= MAX_LINES or name in LONG_FILES:
        return []
    return [f"{name}: {lines} lines; a second idea has moved in: split it, or give the reason in LONG_FILES"]


def check_links(path, root, text):
    """Relative links of a Markdown file point to files that exist."""
    problems = []
    for target in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        if not (path.parent / target).exists():
            problems.append(f"{path.relative_to(root)}: the link {target} leads nowhere")
    return problems


def check_symbolic_links(root):
    """A link in the checkout leads to somebody's folder; checked out over a folder of that name, it replaces it."""
    return [f"{path.relative_to(root)}: a symbolic link to {path.readlink()}" for path in tree.list_links(root)]


def check_lists(root, sources):
    """A list that must be extended is iterated by a test: `std::span<const Entry> entries();` is called by one."""
    tests = "".join(path.read_text() for path in sources if path.name.endswith("_test.cpp"))
    problems = []
    for path in sources:
        if path.suffix != ".h" or root / "src" not in path.parents:
            continue
        for name in LIST.findall(path.read_text()):
            if not re.search(rf"\b{ITERATED_THROUGH.get(name, name)}\(", tests):
                problems.append(f"{path.relative_to(root)}: no test iterates {name}()")
    return problems


def check(root):
    problems = []
    files = [path for path in tree.list_files(root) if path.suffix not in BINARY_SUFFIXES]
    for path in files:
        name = path.relative_to(root).as_posix()
        text = path.read_text(errors="replace")
        problems += check_text(name, text)
        if path.suffix in (*tree.SOURCE_SUFFIXES, ".py"):
            problems += check_length(name, text)
        if path.suffix == ".md":
            problems += check_links(path, root, text)
    problems += check_symbolic_links(root)
    problems += check_lists(root, tree.list_sources(root))
    return len(files), problems


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    tree.report("text", *check(tree.ROOT))
