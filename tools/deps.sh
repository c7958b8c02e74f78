#!/usr/bin/env bash
# Installs and fetches everything the build needs. Usage: tools/deps.sh packages|tree|llama|models|all
#   packages  Debian/Ubuntu packages (apt-get, when root or sudo is there; otherwise says what to install)
#   tree      the pinned llama.cpp tree (tools/deps.lock), checked by sha256, into EI_DEPS_DIR
#   llama     ggml and libllama built from that tree (or from LLAMA_CPP_DIR)
#   models    SmolLM2-135M-Instruct and gemma-3-270m into EI_MODELS_DIR
# Finished steps are skipped, an interrupted one starts over by itself; nothing is fetched a second time.
# Environment: EI_DEPS_DIR (default .deps), EI_MODELS_DIR (default models), LLAMA_CPP_DIR, EI_PORTABLE=ON.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
deps=${EI_DEPS_DIR:-$root/.deps}
models=${EI_MODELS_DIR:-$root/models}
lock=$root/tools/deps.lock
portable=${EI_PORTABLE:-OFF}

say() { printf 'deps: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

packages=(build-essential cmake ninja-build git python3 python3-pip libcli11-dev nlohmann-json3-dev libgtest-dev
  libbenchmark-dev libdnnl-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14)

install_packages() {
  command -v dpkg-query >/dev/null || { say "not a Debian system: provide ${packages[*]} yourself"; return 0; }
  local missing=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null || die "please run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install: ${missing[*]}"
}

# fetch NAME: the locked file of that name into $deps/files, checked; the path is printed.
fetch() {
  local requirement file sum
  read -r requirement file sum < <(awk -v name="$1" '$1 == name { print $2, $3, $4 }' "$lock")
  [ -n "${sum:-}" ] || die "no entry '$1' in tools/deps.lock"
  local target=$deps/files/$file
  if ! [ -f "$target" ]; then
    mkdir -p "$deps/files"
    local scratch
    scratch=$(mktemp -d "$deps/files/.partial.XXXXXX")
    say "fetching $requirement"
    local binary=(--only-binary :all:)
    case $file in *.tar.gz) binary=(--no-binary :all: --no-build-isolation) ;; esac
    python3 -m pip download --quiet --disable-pip-version-check --no-deps "${binary[@]}" -d "$scratch" "$requirement" >&2 ||
      { rm -rf "$scratch"; die "could not fetch $requirement (no network? EI_DEPS_DIR or LLAMA_CPP_DIR can point to an existing copy)"; }
    [ -f "$scratch/$file" ] || { rm -rf "$scratch"; die "$requirement did not contain $file"; }
    echo "$sum  $scratch/$file" | sha256sum --check --status || { rm -rf "$scratch"; die "sha256 of $file is not the pinned one"; }
    mv "$scratch/$file" "$target"
    rm -rf "$scratch"
  fi
  printf '%s\n' "$target"
}

tree_dir() { if [ -n "${LLAMA_CPP_DIR:-}" ]; then printf '%s\n' "$LLAMA_CPP_DIR"; else printf '%s\n' "$deps/llama.cpp"; fi; }

fetch_tree() {
  local tree
  tree=$(tree_dir)
  if [ -n "${LLAMA_CPP_DIR:-}" ]; then
    [ -f "$tree/ggml/CMakeLists.txt" ] || die "LLAMA_CPP_DIR is not a llama.cpp tree: $tree"
    return 0
  fi
  [ -f "$tree/.complete" ] && return 0
  local archive
  archive=$(fetch llama.cpp)
  rm -rf "$tree" "$tree.partial"
  mkdir -p "$tree.partial"
  tar -xzf "$archive" -C "$tree.partial" --strip-components=3 --wildcards '*/vendor/llama.cpp/*'
  touch "$tree.partial/.complete"
  mv "$tree.partial" "$tree"
}

build_llama() {
  fetch_tree
  local tree build
  tree=$(tree_dir)
  build=$deps/build-llama-$(uname -m)
  [ "$portable" = ON ] && build=$build-portable
  # The key names all that decides the result, so a changed tree, compiler, CPU or recipe rebuilds.
  local key
  key=$( { printf '%s\n' "$tree" "$portable"; c++ --version | head -1; cat "$root"/third_party/llama/*
           [ "$portable" = ON ] || grep -m1 -iE '^(flags|features)' /proc/cpuinfo; } | sha256sum | cut -d' ' -f1)
  [ "$(cat "$build/.key" 2>/dev/null)" = "$key" ] && return 0
  say "building ggml and libllama (about two minutes on two cores)"
  mkdir -p "$build"
  cmake -S "$root/third_party/llama" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_CPP_DIR="$tree" \
    -DEI_PORTABLE="$portable" >"$build/configure.log" 2>&1 || { tail -20 "$build/configure.log" >&2; die "configuring llama.cpp failed"; }
  cmake --build "$build" >"$build/build.log" 2>&1 || { tail -40 "$build/build.log" >&2; die "building llama.cpp failed"; }
  printf '%s\n' "$key" >"$build/.key"
}

fetch_models() {
  mkdir -p "$models"
  python3 "$root/tools/fetch_models.py" --lock "$lock" --files "$deps/files" --out "$models" --fetch "$root/tools/deps.sh"
}

case ${1:-all} in
  packages) install_packages ;;
  tree) fetch_tree ;;
  llama) build_llama ;;
  models) fetch_models ;;
  fetch) fetch "${2:?name}" ;;
  all) install_packages; build_llama ;;
  *) die "usage: tools/deps.sh packages|tree|llama|models|all" ;;
esac
