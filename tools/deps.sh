#!/usr/bin/env bash
# Installs and fetches everything the build needs. Usage: tools/deps.sh packages|tree|llama|lowest|tests|models|all|fetch NAME
#   packages    Debian/Ubuntu packages (apt-get, when root or sudo is there; otherwise one line that says what to install)
#   tree        the pinned llama.cpp tree (tools/deps.lock), checked by sha256, into EI_DEPS_DIR
#   llama       ggml and libllama built from that tree (or from LLAMA_CPP_DIR)
#   lowest      of these ggml's CPU code for the lowest CPU of this architecture that is tested; prints its EI_CPU_TARGET,
#               or nothing where this CPU has no more than that one
#   tests       Debian/Ubuntu packages of programs that tests of the server ask: a browser, curl, openssl, venv
#   models      SmolLM2-135M-Instruct and gemma-3-270m into EI_MODELS_DIR
#   all         packages and llama: what a build needs (default)
#   fetch NAME  one package of tools/deps.lock; prints its path
# Finished steps are skipped and half a download is kept, so an interrupted run goes on where it stopped; a finished one
# needs no network.
# Environment: EI_DEPS_DIR (default .deps), EI_MODELS_DIR (default models), LLAMA_CPP_DIR, EI_PORTABLE=ON, EI_CPU_TARGET
# (third_party/llama/cpu_target.cmake); for its tests EI_APT_LISTS, where apt-get keeps its package lists, and
# EI_CPUINFO.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
deps=$(realpath -m "${EI_DEPS_DIR:-$root/.deps}")
lock=$root/tools/deps.lock
portable=${EI_PORTABLE:-OFF}
target=${EI_CPU_TARGET:-}
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-true}

say() { printf 'deps: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

check_target() {
  [ -n "$target" ] || return 0
  local names=(x86-64-v2 x86-64-v3 x86-64-v4)
  case $(uname -m) in aarch64|arm64) names=(armv8.2 armv8.4 armv8.6) ;; esac
  case " ${names[*]} " in
    *" $target "*) ;;
    *) die "EI_CPU_TARGET on $(uname -m) is one of ${names[*]}, not '$target'" ;;
  esac
  [ "$portable" = OFF ] || die "EI_PORTABLE is for any CPU and EI_CPU_TARGET for one: choose"
}

required=(build-essential ca-certificates cmake ninja-build git python3 python3-pip libcli11-dev nlohmann-json3-dev
  libboost-dev libgtest-dev)
# Without oneDNN there is no EI_DENSE=onednn, without Google Benchmark no parts_bench; without libedit no line editing in
# chat; without OpenSSL the server has no TLS, without ZeroMQ no KV events; without clang 14 the style tests that need it
# are skipped; without ccache a second checkout compiles everything again. A release that does not carry one of these
# still builds.
optional=(libdnnl-dev libedit-dev libssl-dev libzmq3-dev libbenchmark-dev ccache
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14)
# Whoever only builds needs none of these; a test that misses one is skipped.
for_tests=(python3-venv chromium curl openssl)

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

# The arguments that are not installed, one a line.
missing_of() { local package; for package; do is_installed "$package" || printf '%s\n' "$package"; done; }

# Sets as_root to the words before apt-get; fails when this user may not install.
become_root() {
  as_root=()
  [ "$(id -u)" -eq 0 ] && return 0
  command -v sudo >/dev/null || return 1
  sudo -n true 2>/dev/null || [ -t 0 ] || return 1
  as_root=(sudo)
}

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >/dev/null; }

# install_optional PACKAGE...: those of them that are missing and that there are; without rights a line says which.
install_optional() {
  command -v apt-get >/dev/null || return 0
  local missing wanted=() as_root=() package
  mapfile -t missing < <(missing_of "$@")
  # Fresh containers have no package lists, and would lack all of these without a word.
  if [ ${#missing[@]} -gt 0 ] && ! compgen -G "${EI_APT_LISTS:-/var/lib/apt/lists}/*Packages*" >/dev/null; then
    { become_root && apt update; } || say "no package lists here: going on without ${missing[*]}"
  fi
  for package in "${missing[@]}"; do
    [ -n "$(apt-cache show "$package" 2>/dev/null)" ] && wanted+=("$package")
  done
  [ ${#wanted[@]} -gt 0 ] || return 0
  become_root || { say "optional, as root: apt-get install --no-install-recommends ${wanted[*]}"; return 0; }
  say "installing ${wanted[*]}"
  # A list that is old names files that are gone.
  apt install -y --no-install-recommends "${wanted[@]}" 2>/dev/null ||
    { apt update && apt install -y --no-install-recommends "${wanted[@]}"; } || say "going on without: ${wanted[*]}"
}

install_packages() {
  command -v apt-get >/dev/null || { say "no apt-get here: install yourself what these packages hold: ${required[*]} ${optional[*]}"; return 0; }
  local missing as_root
  mapfile -t missing < <(missing_of "${required[@]}")
  if [ ${#missing[@]} -gt 0 ]; then
    become_root || die "please run, as root: apt-get install --no-install-recommends ${missing[*]} $(missing_of "${optional[@]}" | xargs)"
    say "installing ${missing[*]}"
    apt update || say "apt-get update failed; trying with the package lists that are here"
    apt install -y --no-install-recommends "${missing[@]}" || die "apt-get could not install: ${missing[*]}"
  fi
  install_optional "${optional[@]}"
}

# One dependency step at a time, also between checkouts that share EI_DEPS_DIR.
lock_deps() {
  mkdir -p "$deps/files" || die "cannot write to EI_DEPS_DIR: $deps"
  exec 9>"$deps/.lock"
  flock 9
}

# fetch NAME: the locked file of that name in $deps/files, checked; the path is printed.
fetch() {
  local kind name requirement file sum target
  read -r kind name requirement file sum < <(awk -v name="$1" '$1 == "package" && $2 == name' "$lock") ||
    die "no package '$1' in tools/deps.lock"
  target=$deps/files/$file
  if [ -f "$target" ]; then
    printf '%s\n' "$target"
    return 0
  fi
  python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip: install python3-pip"
  say "fetching $requirement"
  # Goes on in the middle of a file. pip cannot, but it knows more kinds of index.
  if python3 "$root/tools/fetch_file.py" "$requirement" "$file" "$sum" "$deps/files" >&2; then
    printf '%s\n' "$target"
    return 0
  fi
  scratch=$(mktemp -d "$deps/files/.partial.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  # pip itself checks the hash before it looks into the file (a source package would otherwise run code first).
  printf '%s --hash=sha256:%s\n' "$requirement" "$sum" >"$scratch/requirements.txt"
  local kind_flags=(--only-binary :all:)
  case $file in *.tar.gz) kind_flags=(--no-binary "${requirement%%==*}") ;; esac
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes "${kind_flags[@]}" \
    -d "$scratch" -r "$scratch/requirements.txt" >&2 ||
    die "could not fetch $requirement (no network? EI_DEPS_DIR or LLAMA_CPP_DIR can point to an existing copy)"
  [ -f "$scratch/$file" ] || die "$requirement did not contain $file"
  echo "$sum  $scratch/$file" | sha256sum --check --status || die "sha256 of $file is not the pinned one"
  mv "$scratch/$file" "$target"
  rm -f "$target.part"
  printf '%s\n' "$target"
}

fetch_tree() {
  if [ -n "${LLAMA_CPP_DIR:-}" ]; then
    [ -f "$LLAMA_CPP_DIR/ggml/CMakeLists.txt" ] || die "LLAMA_CPP_DIR is not a llama.cpp tree: $LLAMA_CPP_DIR"
    tree=$(realpath "$LLAMA_CPP_DIR")
    return 0
  fi
  tree=$deps/llama.cpp
  local archive sum
  sum=$(awk '$1 == "package" && $2 == "llama.cpp" { print $5 }' "$lock")
  [ "$(cat "$tree/.complete" 2>/dev/null)" = "$sum" ] && return 0
  archive=$(fetch llama.cpp)
  rm -rf "$tree" "$tree.partial"
  mkdir -p "$tree.partial"
  # Dated now: what was built from another version must look older.
  tar -xzmf "$archive" -C "$tree.partial" --strip-components=3 --wildcards '*/vendor/llama.cpp/*'
  printf '%s\n' "$sum" >"$tree.partial/.complete"
  mv "$tree.partial" "$tree"
}

# What would be compiled: names, sizes and dates of the tree's sources.
tree_state() { (cd "$tree" && find . -path ./.git -prune -o -type f -printf '%p %s %T@\n' | LC_ALL=C sort); }

# build_llama [GOAL]: all of it, or only that target of its build.
build_llama() {
  local tree build key goal=${1:-}
  fetch_tree
  build=$deps/build-llama-$(uname -m)${target:+-$target}
  [ "$portable" = ON ] && build=$build-portable
  # The key names all that decides the result, so a changed tree, compiler, CPU or recipe rebuilds.
  key=$( { printf '%s\n' "$tree" "$portable" "$target"; tree_state; "${CXX:-c++}" --version | head -1; cat "$root"/third_party/llama/*
           [ "$portable" = ON ] || [ -n "$target" ] || grep -m1 -iE '^(flags|features)' /proc/cpuinfo; } | sha256sum | cut -d' ' -f1)
  [ "$(cat "$build/.key" 2>/dev/null)" = "$key" ] && return 0
  [ -n "$goal" ] && [ "$(cat "$build/.key-$goal" 2>/dev/null)" = "$key" ] && return 0
  say "building ${goal:-ggml and libllama}${target:+ for $target} (minutes; log: $build/build.log)"
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  mkdir -p "$build"
  # Another checkout may have configured it; CMake would refuse to go on from here.
  grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root/third_party/llama" "$build/CMakeCache.txt" ||
    rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
  cmake -S "$root/third_party/llama" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_CPP_DIR="$tree" \
    -DEI_PORTABLE="$portable" -DEI_CPU_TARGET="$target" "${launcher[@]}" >"$build/configure.log" 2>&1 || { tail -20 "$build/configure.log" >&2; die "configuring llama.cpp failed"; }
  cmake --build "$build" ${goal:+--target "$goal"} >"$build/build.log" 2>&1 || { tail -40 "$build/build.log" >&2; die "building llama.cpp failed"; }
  printf '%s\n' "$key" >"$build/.key${goal:+-$goal}"
}

# The lowest target that is tested, where this CPU has it and more.
lowest_target() {
  local lowest=x86-64-v3 has='avx2 fma f16c bmi2' more='avx512f avx_vnni' features word
  case $(uname -m) in aarch64|arm64) lowest=armv8.2 has='asimddp asimdhp' more='bf16 i8mm sve' ;; esac
  features=" $(grep -m1 -iE '^(flags|features)' "${EI_CPUINFO:-/proc/cpuinfo}" | cut -d: -f2) "
  for word in $has; do [[ $features = *" $word "* ]] || return 0; done
  for word in $more; do [[ $features = *" $word "* ]] && { printf '%s\n' "$lowest"; return 0; }; done
  return 0
}

check_target
case ${1:-all} in
  packages) install_packages ;;
  tree) lock_deps; fetch_tree; printf '%s\n' "$tree" ;;
  llama) lock_deps; build_llama ;;
  lowest)
    target=$(lowest_target)
    [ -z "$target" ] && exit 0
    lock_deps
    build_llama ggml-cpu
    printf '%s\n' "$target" ;;
  tests) install_optional "${for_tests[@]}" ;;
  models) python3 "$root/tools/fetch_models.py" ;;
  fetch) lock_deps; fetch "${2:?fetch needs a NAME of tools/deps.lock}" ;;
  all) install_packages; lock_deps; build_llama ;;
  *) die "usage: tools/deps.sh packages|tree|llama|lowest|tests|models|all|fetch NAME" ;;
esac
