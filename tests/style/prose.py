#!/usr/bin/env python3
"""Prose of Markdown pages is wrapped at 100 columns, so that a change shows as the lines it changed. Tables, code and
lines that cannot be broken may be longer. `--fix` wraps the paragraphs that have a longer line. A page of docs/ begins
with a title and a paragraph that says what the reader gets."""

import re
import sys

import tree

COLUMNS = 100
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")
# At the beginning of a line these would be a list, a heading, a quotation or a table.
MARK = re.compile(r"^([-*+>|]|\d+[.)]|#+)$|^[|>#]")


def is_verbatim(line):
    """Not prose: a heading, a table, a picture or markup of its own."""
    return bool(re.match(r"^\s*(#|\||<|!\[|\[[^\]]+\]:)", line)) or not line.strip()


def split_words(text):
    """The words of a paragraph; one that would be a mark at the beginning of a line stays with the word before it."""
    words = []
    for word in text.split():
        if words and MARK.match(word):
            words[-1] += " " + word
        else:
            words.append(word)
    return words


def wrap(lines):
    """A paragraph or list item again, in lines of at most COLUMNS where its words allow."""
    item = ITEM.match(lines[0])
    first = item[0] if item else re.match(r"\s*", lines[0])[0]
    rest = " " * len(first)
    text = " ".join([lines[0][len(first):]] + lines[1:])
    wrapped, line, fresh = [], first, True
    for word in split_words(text):
        joined = line + word if fresh else f"{line} {word}"
        if len(joined) > COLUMNS and not fresh:
            wrapped.append(line)
            joined = rest + word
        line, fresh = joined, False
    return wrapped + [line]


def paragraphs(lines):
    """(first, last + 1) of every paragraph and list item; what is no prose is left out."""
    begin, fenced = None, False
    for number, line in enumerate(lines + [""]):
        fence = line.lstrip().startswith("```")
        ends = fence or fenced or is_verbatim(line) or ITEM.match(line)
        if begin is not None and ends:
            yield begin, number
            begin = None
        if begin is None and not (fence or fenced or is_verbatim(line)):
            begin = number
        fenced = fenced != fence


def wrap_page(text):
    lines = text.split("\n")
    for begin, end in reversed(list(paragraphs(lines))):
        if any(len(line) > COLUMNS for line in lines[begin:end]):
            lines[begin:end] = wrap(lines[begin:end])
    return "\n".join(lines)


def check_page(name, text):
    lines, wrapped = text.split("\n"), wrap_page(text).split("\n")
    if lines == wrapped:
        return []
    number = next((i for i, pair in enumerate(zip(lines, wrapped), 1) if pair[0] != pair[1]), 0)
    return [f"{name}:{number}: prose goes beyond {COLUMNS} columns; tests/style/prose.py --fix wraps it"]


def check_opening(name, text):
    lines = text.split("\n")
    begins = len(lines) > 2 and lines[0].startswith("# ") and not lines[1] and not is_verbatim(lines[2])
    if begins and not lines[2].startswith("```"):
        return []
    return [f"{name}:1: a page begins with a title and a sentence on what the reader gets from it"]


def list_pages(root):
    return [path for path in tree.list_files(root) if path.suffix == ".md"]


def check(root):
    problems = []
    for path in list_pages(root):
        name = path.relative_to(root).as_posix()
        problems += check_page(name, path.read_text())
        if name.startswith("docs/"):
            problems += check_opening(name, path.read_text())
    return len(list_pages(root)), problems


def fix(root):
    for path in list_pages(root):
        text = path.read_text()
        if wrap_page(text) != text:
            path.write_text(wrap_page(text))
            print(path.relative_to(root))


if __name__ == "__main__":
    if sys.argv[1:] == ["--fix"]:
        fix(tree.ROOT)
    elif len(sys.argv) > 1:
        sys.exit(__doc__)
    else:
        tree.report("prose", *check(tree.ROOT))
