#!/usr/bin/env python3
"""Includes point down only: a room includes headers of itself and of the rooms it names in src/CMakeLists.txt.

The table of allowed edges is read from the build, so it cannot drift from it. Headers of other projects are confined
the same way: a room may include them only when it links the library itself.
"""

import pathlib
import re
import sys

import tree

# Headers of other projects -> the library a room must name under LIBS. oneDNN is linked where it is found.
THIRD_PARTY = [
    (re.compile(r"^(ggml|gguf|llama)[-\w./]*\.h$"), "ei_llama"),
    (re.compile(r"^(jinja/|json-schema|unicode\.h|trie\.h)"), "ei_llama"),
    (re.compile(r"^CLI/"), "CLI11::CLI11"),
    (re.compile(r"^nlohmann/"), "nlohmann_json::nlohmann_json"),
    (re.compile(r"^(oneapi/)?dnnl|^oneapi/dnnl/"), "${EI_DNNL}"),
]
GENERATED = {"ei_build.h"}  # version and commit, written by the build
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def read_rooms(cmake_text):
    """{room: (rooms it may include, libraries it links)} from ei_room(...) and target_link_libraries(ei_room ...)."""
    rooms = {}
    text = re.sub(r"#.*", "", cmake_text)
    for name, body in re.findall(r"ei_room\(\s*(\w+)([^)]*)\)", text):
        words = {"DEPS": [], "LIBS": [], "LABELS": []}
        kind = None
        for word in body.split():
            if word in words:
                kind = word
            elif kind:
                words[kind].append(word)
        rooms[name] = (set(words["DEPS"]), set(words["LIBS"]))
    for name, body in re.findall(r"target_link_libraries\(\s*ei_(\w+)([^)]*)\)", text):
        if name in rooms:
            rooms[name][1].update(body.split())
    return rooms


def check_edge(room, quoted, header, rooms):
    """Why this include is wrong, or None."""
    deps, libs = rooms[room]
    target = header.split("/")[0] if "/" in header else None
    if target in rooms and quoted:
        return None if target == room or target in deps else f"{room} may not include {target} (src/CMakeLists.txt)"
    for pattern, library in THIRD_PARTY:
        if pattern.search(header):
            return None if library in libs else f"{room} does not link {library}"
    if header in GENERATED:
        return None
    if quoted and target is None:
        return 'write "room/file.h"'
    if quoted:
        return f"there is no room '{target}'"
    return None


def check_file(path, src, rooms):
    relative = path.relative_to(src)
    room = relative.parts[0]
    if len(relative.parts) == 1:
        return []  # main.cpp ties the rooms together
    if room not in rooms:
        return [f"src/{relative}: the room '{room}' is not in src/CMakeLists.txt"]
    problems = []
    includes = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            includes.append(match[2])
            if relative.stem.endswith("_test") and match[2].startswith("support/"):
                continue  # tests/support: what tests share
            why = check_edge(room, match[1] == '"', match[2], rooms)
            if why:
                problems.append(f"src/{relative}:{number}: {match[2]}: {why}")
    own = relative.with_suffix(".h")
    if path.suffix == ".cpp" and (src / own).exists() and includes[:1] != [own.as_posix()]:
        problems.append(f"src/{relative}:1: its own header comes first: {own.as_posix()}")
    return problems


def check_header(path, root):
    """A header says on its first line what it is for, and guards itself."""
    lines = path.read_text().splitlines()
    name = path.relative_to(root)
    problems = []
    if not lines or not lines[0].startswith("//"):
        problems.append(f"{name}:1: the first line of a header says what the file is for")
    if "#pragma once" not in lines:
        problems.append(f"{name}:1: #pragma once is missing")
    return problems


def check_test_headers(root):
    """What only tests include lies in tests/support: no header of src is out of reach of the program, its tools and
    benchmarks."""
    includes = {}
    for path in tree.list_sources(root):
        name = path.relative_to(root).as_posix()
        lines = path.read_text().splitlines()
        includes[name] = [match[2] for match in map(INCLUDE.match, lines) if match]
    reached = {name for name in includes if name.endswith((".cpp", ".cu")) and not name.endswith("_test.cpp")
               and not name.startswith("tests/")}
    ahead = list(reached)
    while ahead:
        folder = pathlib.PurePosixPath(ahead[-1]).parent
        for header in includes[ahead.pop()]:
            for candidate in (f"src/{header}", f"{folder}/{header}", header):
                if candidate in includes and candidate not in reached:
                    reached.add(candidate)
                    ahead.append(candidate)
    return [f"{name}: only tests include it; it belongs in tests/support" for name in includes
            if name.startswith("src/") and name.endswith((".h", ".cuh")) and name not in reached]


def check_acyclic(rooms):
    """Rooms are listed bottom up: a room names only rooms listed before it."""
    seen = set()
    problems = []
    for room, (deps, _) in rooms.items():
        problems += [f"src/CMakeLists.txt: {room} names {dep}, which is not listed before it" for dep in deps - seen]
        seen.add(room)
    return problems


def check(root):
    src = root / "src"
    rooms = read_rooms((src / "CMakeLists.txt").read_text())
    problems = check_acyclic(rooms)
    for edge in (("policy", "tensor"), ("policy", "backend"), ("model", "policy"), ("model", "kv"), ("sparse", "kv"),
                 ("kv", "sparse")):
        if edge[1] in rooms.get(edge[0], (set(),))[0]:
            problems.append(f"src/CMakeLists.txt: {edge[0]} must not know {edge[1]} (docs/design.md)")
    files = [path for path in tree.list_sources(root) if src in path.parents]
    for path in files:
        problems += check_file(path, src, rooms)
        if path.suffix in (".h", ".cuh"):
            problems += check_header(path, root)
    problems += check_test_headers(root)
    return len(files), problems


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    tree.report("includes", *check(tree.ROOT))
