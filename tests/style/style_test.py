#!/usr/bin/env python3
"""The style checks themselves: each must fail on a tree that breaks its rule, and pass on one that keeps it."""

import json
import pathlib
import shutil
import tempfile
import unittest

import includes
import prose
import text
import tidy
import tree

ROOMS = """
ei_room(base LIBS Threads::Threads)   # comment with ei_room(nothing)
ei_room(plan DEPS base)
ei_room(backend DEPS base plan LIBS ei_llama LABELS threads)
target_link_libraries(ei_backend PUBLIC ${EI_DNNL})
"""


class Checkout(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/CMakeLists.txt", ROOMS)

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def problems(self, check):
        return check.check(self.root)[1]


class Includes(Checkout):
    def test_reads_edges_and_libraries_from_the_build(self):
        rooms = includes.read_rooms(ROOMS)
        self.assertEqual(list(rooms), ["base", "plan", "backend"])
        self.assertEqual(rooms["backend"], ({"base", "plan"}, {"ei_llama", "PUBLIC", "${EI_DNNL}"}))

    def test_accepts_includes_that_point_down(self):
        self.write("src/backend/a.cpp", '#include "plan/p.h"\n#include "backend/b.h"\n#include <dnnl.hpp>\n'
                   '#include <ggml-cpu.h>\n#include <vector>\n')
        self.assertEqual(self.problems(includes), [])

    def test_refuses_an_include_that_points_up(self):
        self.write("src/plan/a.cpp", '#include "backend/b.h"\n')
        self.assertIn("plan may not include backend", self.problems(includes)[0])

    def test_refuses_other_projects_headers_outside_of_their_rooms(self):
        for header in ("ggml.h", "llama.h", "nlohmann/json.hpp", "CLI/CLI.hpp", "dnnl.hpp", "oneapi/dnnl/dnnl.hpp"):
            self.write("src/plan/a.cpp", f"#include <{header}>\n")
            self.assertEqual(len(self.problems(includes)), 1, header)

    def test_refuses_a_header_that_only_tests_include(self):
        self.write("src/base/fake.h", "// A fake.\n#pragma once\n")
        self.write("src/base/a_test.cpp", '#include "base/fake.h"\n')
        self.assertIn("src/base/fake.h: only tests include it", self.problems(includes)[0])
        self.write("src/base/a.h", '// Between.\n#pragma once\n#include "base/fake.h"\n')
        self.write("bench/b.cpp", '#include "base/a.h"\n')
        self.assertEqual(self.problems(includes), [])

    def test_refuses_a_room_the_build_does_not_know(self):
        self.write("src/extra/a.cpp", "\n")
        self.assertEqual(len(self.problems(includes)), 1)

    def test_refuses_includes_without_a_room(self):
        self.write("src/plan/a.cpp", '#include "b.h"\n#include "nowhere/b.h"\n')
        self.assertEqual(len(self.problems(includes)), 2)

    def test_wants_the_own_header_first(self):
        self.write("src/plan/a.h", "// A.\n#pragma once\n")
        self.write("src/plan/a.cpp", '#include <vector>\n#include "plan/a.h"\n')
        self.assertIn("own header", self.problems(includes)[0])

    def test_wants_a_purpose_and_a_guard_in_headers(self):
        self.write("src/plan/a.h", "int a();\n")
        self.write("src/plan/a.cpp", '#include "plan/a.h"\n')
        self.assertEqual(len(self.problems(includes)), 2)

    def test_refuses_rooms_that_are_not_listed_bottom_up(self):
        self.write("src/CMakeLists.txt", "ei_room(base DEPS plan)\nei_room(plan)\n")
        self.assertIn("base names plan", self.problems(includes)[0])

    def test_keeps_the_two_missing_edges_missing(self):
        self.write("src/CMakeLists.txt", "ei_room(tensor)\nei_room(policy DEPS tensor)\n")
        self.assertIn("policy must not know tensor", self.problems(includes)[0])


class Prose(Checkout):
    LONG = "word " * 30

    def test_refuses_prose_beyond_the_column(self):
        self.write("notes.md", f"# Notes\n\nShort.\n\n{self.LONG}\n")
        self.assertIn("notes.md:5: prose goes beyond 100 columns", self.problems(prose)[0])

    def test_accepts_long_tables_code_and_words(self):
        self.write("notes.md", f"# Notes\n\n| {self.LONG} |\n\n```\n{self.LONG}\n```\n\n{'x' * 120}\n")
        self.assertEqual(self.problems(prose), [])

    def test_wraps_paragraphs_and_items_and_nothing_else(self):
        item = "1. " + "word " * 30
        wrapped = prose.wrap_page(f"# Notes\n\n{item}\n   more - of it\n- short\n  lines stay\n")
        lines = wrapped.split("\n")
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertTrue(lines[3].startswith("   word"))
        self.assertEqual(lines[-3:], ["- short", "  lines stay", ""])
        self.assertEqual(prose.wrap_page(wrapped), wrapped)
        self.assertEqual(wrapped.split(), f"# Notes {item} more - of it - short lines stay".split())

    def test_never_begins_a_line_with_a_mark(self):
        for mark in ("-", "*", "12.", "#", "|"):
            lines = prose.wrap(["word " * 19 + f"word {mark} more words behind the mark"])
            self.assertFalse(any(line.startswith(mark) for line in lines), lines)

    def test_wants_a_page_of_docs_to_say_what_the_reader_gets(self):
        self.write("docs/page.md", "# Page\n\n## How\n")
        self.assertIn("what the reader gets", self.problems(prose)[0])
        self.write("docs/page.md", "# Page\n\nYou get: a page.\n")
        self.assertEqual(self.problems(prose), [])


class Text(Checkout):
    def test_accepts_ordinary_text(self):
        self.write("notes.md", "See [the rooms](src/CMakeLists.txt), /usr/bin and build/work/x.\n")
        self.assertEqual(self.problems(text), [])

    def test_refuses_machine_paths(self):
        for path in ("/" + "work/x", "/" + "root/.cache", "/" + "home/me/x"):
            self.write("notes.md", f"see {path}\n")
            self.assertEqual(len(self.problems(text)), 1, path)

    def test_refuses_registry_hosts_and_markers(self):
        self.write("a.sh", "curl https://py" + "pi.org/simple\n# TO" + "DO later\n")
        self.assertEqual(len(self.problems(text)), 2)

    def test_refuses_long_sources(self):
        self.write("src/plan/a.cpp", "\n" * (text.MAX_LINES + 1))
        self.assertIn("second idea", self.problems(text)[0])

    def test_refuses_links_that_lead_nowhere(self):
        self.write("notes.md", "[a](missing.md) [b](https://example.com) [c](src/CMakeLists.txt#x)\n")
        self.assertIn("missing.md", self.problems(text)[0])

    def test_refuses_symbolic_links(self):
        (self.root / "folder").symlink_to("/nowhere")
        self.assertIn("folder: a symbolic link to /nowhere", self.problems(text)[0])

    def test_wants_a_test_that_iterates_every_list(self):
        self.write("src/plan/plans.h", "// The plans.\n#pragma once\nstd::span<const Plan> plans();  // all\n")
        self.assertIn("no test iterates plans()", self.problems(text)[0])
        self.write("src/plan/plans_test.cpp", "for (const Plan& plan : plans()) {}\n")
        self.assertEqual(self.problems(text), [])


@unittest.skipUnless(shutil.which(tidy.TOOL), "clang-tidy is not installed")
class Tidy(Checkout):
    def setUp(self):
        super().setUp()
        shutil.copy(tree.ROOT / ".clang-tidy", self.root)
        self.sources = []

    def add(self, name, content, flags="-O1"):
        self.write(name, content)
        compile_it = f"c++ {flags} -o {name}.o -c {self.root / name}"
        self.sources.append({"directory": str(self.root / "build"), "file": str(self.root / name), "command": compile_it})

    def problems(self, everything=False):
        self.write("build/compile_commands.json", json.dumps(self.sources))
        return tidy.check(self.root, self.root / "build", everything)[1]

    def test_accepts_good_names_and_remembers_it(self):
        self.add("src/base/a.cpp", "int good_name() { return 0; }\n")
        self.add("src/base/b.cpp", "int other_name() { return 0; }\n")
        self.assertEqual(self.problems(), [])
        self.assertEqual(len(list((self.root / "build/tidy").iterdir())), 1)
        self.assertEqual(self.problems(), [])

    def test_finds_problems_of_every_source_of_a_batch_and_of_their_headers(self):
        self.write("src/base/c.h", "inline int BadHeader() { return 0; }\n")
        self.add("src/base/a.cpp", '#include "c.h"\nint BadFirst() { return BadHeader(); }\n')
        self.add("src/base/b.cpp", "int BadSecond() { return 0; }\n")
        found = self.problems()
        self.assertEqual(len(found), 3, found)
        self.assertTrue(found[0].startswith("src/base/a.cpp:2:5: error: invalid case style for function 'BadFirst'"), found)
        self.assertIn("src/base/b.cpp:1:5:", found[1])
        self.assertIn("src/base/c.h:1:12:", found[2])

    def test_checks_sources_alone_that_use_one_name_for_two_things(self):
        self.add("src/base/a.cpp", "static int helper() { return 0; }\nint BadFirst() { return helper(); }\n")
        self.add("src/base/b.cpp", "static int helper() { return 1; }\nint BadSecond() { return helper(); }\n")
        found = self.problems()
        self.assertEqual(len(found), 2, found)
        self.assertIn("BadFirst", found[0])

    def test_finds_sources_that_are_compiled_through_one_file(self):
        self.write("src/base/a_test.cpp", "int BadFirst() { return 0; }\n")
        self.write("src/base/b_test.cpp", "int good_name() { return 0; }\n")
        included = "".join(f'#include "{self.root}/src/base/{name}_test.cpp"\n' for name in "ab")
        self.add("build/Unity/unity_0_cxx.cxx", included)
        found = self.problems(everything=True)
        self.assertEqual(len(found), 1, found)
        self.assertIn("src/base/a_test.cpp:1:5:", found[0])

    def test_keeps_what_is_compiled_differently_apart(self):
        self.add("src/base/a.cpp", "int one() { return kValue; }\n", "-DkValue=1")
        self.add("src/base/b.cpp", "constexpr int kValue = 2;\n")
        self.assertEqual(self.problems(), [])

    def test_names_a_source_that_does_not_compile(self):
        self.add("src/base/a.cpp", "int one() { return }\n")
        self.add("src/base/b.cpp", "int two() { return 2; }\n")
        found = self.problems()
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("src/base/a.cpp:1:20: error: expected expression"), found)

    def test_leaves_tests_to_the_full_run(self):
        self.add("src/base/a_test.cpp", "int BadTest() { return 0; }\n")
        self.add("tests/base/b.cpp", "int BadHelper() { return 0; }\n")
        self.assertEqual(self.problems(), [])
        self.assertEqual(len(self.problems(everything=True)), 2)


if __name__ == "__main__":
    unittest.main()
