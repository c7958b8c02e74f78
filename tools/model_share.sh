#!/usr/bin/env bash
# A model, not a measurement: what share of a CPU's multiply-add peak the prefill attention kernels could reach, from
# their compiled inner loops and llvm-mca's scheduling models. For architectures that are not at hand to be timed.
#
#   tools/model_share.sh
#
# Needs llvm-mca and a compiler for x86-64; with one for aarch64 the NEON kernel is modelled too, which can be timed and
# so says how far the model is off. From the environment: EI_MCA (llvm-mca), EI_X86_CXX, EI_ARM_CXX. Exit 77 when there
# is no llvm-mca of version 19 or newer or no compiler at all.
#
# A block of rows folds one tile of keys: scores, maxima, exponentials, outputs. The model adds the cycles of these
# loops, each in its steady state. It assumes that every load hits the first-level cache and every branch is foreseen,
# and leaves out packing, what lies between the loops, and rows that only fill up a block.
set -euo pipefail
cd "$(dirname "$0")/.."

first_of() {
  for name in "$@"; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then echo "$name" && return; fi
  done
}
native() { if [ "$(uname -m)" = "$1" ]; then echo g++; fi; }
mca=$(first_of "${EI_MCA:-}" llvm-mca-{21,20,19} llvm-mca)
x86=$(first_of "${EI_X86_CXX:-}" x86_64-linux-gnu-g++ "$(native x86_64)")
arm=$(first_of "${EI_ARM_CXX:-}" aarch64-linux-gnu-g++ "$(native aarch64)")
# Older ones take the newer processors for others without a word that could be caught.
version=$(if [ -n "$mca" ]; then "$mca" --version | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p'; fi)
if [ "${version:-0}" -lt 19 ] || [ -z "$x86$arm" ]; then
  echo "model_share: needs llvm-mca 19 or newer (package llvm-19) and g++-x86-64-linux-gnu or g++-aarch64-linux-gnu"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# assembly COMPILER TARGET NAME: attention_NAME.cpp with the flags of the build.
assembly() {
  local flags
  flags=$(awk -v target="$2" '/if\(CMAKE_SYSTEM_PROCESSOR/ { on = index($0, target) > 0 } on' src/kernels/isa.cmake |
    sed -n "s|^ *ei_isa(attention/cpu/attention_$3.cpp \"\(.*\)\")$|\1|p" | tr ';' ' ')
  # shellcheck disable=SC2086
  "$1" -std=c++20 -O3 -ffp-contract=off -Isrc $flags -S "src/kernels/attention/cpu/attention_$3.cpp" -o "$work/$3.s"
}
if [ -n "$arm" ]; then assembly "$arm" aarch64 neon; fi
if [ -n "$x86" ]; then
  for name in avx2 avx512 avx512bf16; do assembly "$x86" x86_64 "$name"; done
fi

python3 - "$mca" "$work" <<'PY'
import pathlib
import re
import subprocess
import sys

mca, work = sys.argv[1], pathlib.Path(sys.argv[2])
CPUS = {"neon": ["neoverse-v1"], "avx2": ["haswell", "skylake", "znver3"],
        "avx512": ["skylake-avx512", "sapphirerapids", "znver4"],
        "avx512bf16": ["cooperlake", "sapphirerapids", "znver4"]}
# A register's worth of independent multiply-adds: the peak of the model.
PEAK = {"neon": "fmla v{0}.4s, v30.4s, v31.s[0]", "avx2": "vfmadd231ps %ymm14, %ymm15, %ymm{0}",
        "avx512": "vfmadd231ps %zmm30, %zmm31, %zmm{0}", "avx512bf16": "vdpbf16ps %zmm30, %zmm31, %zmm{0}"}
PRODUCT = {"neon": r"fmla\s.*\.s\[", "avx2": r"vfmadd231ps", "avx512": r"vfmadd231ps", "avx512bf16": r"vdpbf16ps"}
EXP = r"vscalefps|vcvtps2dq|shl\s+v\d+\.4s, v\d+\.4s, 23"
MAX = r"vmaxps|fmax\s"


def cycles(name, cpu, lines):
    rounds = 200
    triple = "aarch64" if name == "neon" else "x86_64"
    text = "\n".join(re.sub(r"\.LC", "constant", line) for line in lines) + "\n"
    run = subprocess.run([mca, "-mtriple=" + triple, "-mcpu=" + cpu, f"-iterations={rounds}", "-instruction-info=false",
                          "-resource-pressure=false", "-"], input=text, capture_output=True, text=True)
    total = re.search(r"Total Cycles:\s+(\d+)", run.stdout)
    if total is None:
        sys.exit(f"model_share: llvm-mca does not take the loops of {name} for {cpu}:\n{run.stderr[:400]}")
    return int(total[1]) / rounds


def innermost_loops(text, function):
    """The instructions of every innermost loop of the function whose mangled name matches."""
    body, lines = False, []
    for line in text.splitlines():
        body = body or re.match(r"^_Z\w*:", line) and re.search(function, line)
        if body and re.match(r"^\t\.size", line):
            break
        if body:
            lines.append(line)
    at = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"^(\.L\w+):", line))}
    jumps = [(at[m[1]], i) for i, line in enumerate(lines)
             if (m := re.match(r"^\t(?:j|b|cb|tb)[\w.]*\s+(?:.*,\s*)?(\.L\w+)$", line)) and at.get(m[1], i) < i]
    for a, b in jumps:
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in jumps):
            yield [line for line in lines[a:b + 1] if re.match(r"^\t[a-z]", line)]


def hot_loops(name, text):
    """Scores and outputs in the order of the source; of the masked and the plain softmax loops the plain ones."""
    products, exps, maxima = [], [], []
    for loop in innermost_loops(text, r"7PrefillI.*NeonPrefillEE3run" if name == "neon" else r"6attend"):
        count = lambda what: sum(bool(re.search(what, line)) for line in loop)
        if count(PRODUCT[name]) >= 8:
            products.append(loop)
        elif count(EXP):
            exps.append(loop)
        elif count(MAX):
            maxima.append(loop)
    if len(products) != 2 or not exps or not maxima:
        found = f"{len(products)} products, {len(exps)} of exponentials, {len(maxima)} of maxima"
        sys.exit(f"model_share: {name}: found loops: {found}; have the kernels changed?")
    return {"scores": products[0], "outputs": products[1], "exp": min(exps, key=len), "max": min(maxima, key=len)}


def shape(name):
    """high, lanes of a row block, keys of a tile, multiply-adds a lane makes in one instruction"""
    if name == "neon":
        return 8, 8, 128, 1
    source = pathlib.Path(f"src/kernels/attention/cpu/attention_{name}.cpp").read_text()
    width, high, vecs, pairs = re.search(r"LanesPrefill<Vec(\d+), (\d+), (\d+), (\w+)>", source).groups()
    return int(high), int(width) * int(vecs), 64, 2 if pairs == "true" else 1


print("modelled by llvm-mca; cycles of one round of each loop; share of the model's own peak of multiply-adds")
for name, cpus in CPUS.items():
    path = work / f"{name}.s"
    if not path.exists():
        continue
    loops = hot_loops(name, path.read_text())
    high, rows, keys, step = shape(name)
    width = {"neon": 4, "avx2": 8}.get(name, 16)
    chains = 12 if name == "avx2" else 24  # more than the latency of any model hides
    count = lambda loop, what: sum(bool(re.search(what, line)) for line in loops[loop])
    for cpu in cpus:
        took = {loop: cycles(name, cpu, lines) for loop, lines in loops.items()}
        fma = cycles(name, cpu, [PEAK[name].format(i) for i in range(chains)]) / chains
        parts = []
        for dim in (64, 128):
            ideal = 2 * rows * keys * dim / (width * step)  # multiply-add instructions of a block
            vectors = rows * keys / width
            total = ideal / 2 / count("scores", PRODUCT[name]) * took["scores"]
            total += ideal / 2 / count("outputs", PRODUCT[name]) * took["outputs"]
            # An iteration of the softmax loops takes as many vectors of scores as it has of these instructions.
            total += vectors / count("exp", EXP) * took["exp"] + vectors / count("max", MAX) * took["max"]
            parts.append(f"head_dim {dim}: block {total:.0f} cycles, share {ideal * fma / total:.2f}")
        print(f"{name:10} {cpu:15} " + " ".join(f"{k} {v:.1f}" for k, v in took.items()) +
              f"  fma/cycle {1 / fma:.2f}  " + "; ".join(parts))
PY
