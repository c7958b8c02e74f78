#!/usr/bin/env python3
"""The blocks that a model's kv_heads read, from `entropyinfer run --dump-plan PLAN`, as attend_bench --lists reads them.

usage: lists.py PLAN FILE [--layers 1,4,6]   (without --layers all that chose, but the last: few of its rows attend)
"""

import array
import json
import sys

SEGMENT = 512  # attend_bench's
LARGEST = 8 << 20


def main():
    words = sys.argv[1:]
    asked = None
    if "--layers" in words:
        at = words.index("--layers")
        asked = [int(layer) for layer in words[at + 1].split(",")]
        del words[at : at + 2]
    if len(words) != 2:
        sys.exit(__doc__)
    with open(words[0]) as file:
        plan = json.load(file)
    segment, block = plan["options"]["segment"], plan["options"]["block"]
    if segment != SEGMENT:
        sys.exit(f"segments of {segment} tokens: attend_bench has {SEGMENT}")
    segments = plan["prompt_tokens"] // segment
    layers = asked or [layer for layer in range(plan["layers"] - 1) if plan["segments"][layer]]
    counts, blocks = array.array("i"), array.array("H")
    heads = 0
    for layer in layers:
        dense = dict(zip(plan["segments"][layer], plan["dense"][layer]))
        for lists in plan["blocks"][layer]:
            chosen = dict(zip(plan["segments"][layer], lists))
            heads += 1
            for i in range(segments):
                listed = chosen.get(i, [])
                reads_all = dense.get(i, True)  # a segment of a chunk that planned nothing
                counts.append(-1 if reads_all else len(listed))
                blocks.extend([] if reads_all else listed)
    header = array.array("i", [int.from_bytes(b"EILS", "little"), block, heads, segments])
    size = header.itemsize * (len(header) + len(counts)) + blocks.itemsize * len(blocks)
    if size > LARGEST:
        sys.exit(f"{size >> 20} MiB: take fewer --layers")
    with open(words[1], "wb") as file:
        for part in (header, counts, blocks):
            part.tofile(file)
    print(f"{heads} kv_heads of layers {layers}, {segments} segments, {len(blocks)} blocks of {block}, {size} bytes")


if __name__ == "__main__":
    main()
