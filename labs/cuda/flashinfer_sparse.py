#!/usr/bin/env python3
"""FlashInfer's sparse prefill over the lists that attend_bench --lists reads: an outside witness of lists of blocks.

usage: flashinfer_sparse.py FILE [SIZE ...]   (sizes of blocks, default 8 16 32 64; the same shape, lists and pairs)

A segment of a kv_head is a request of its paged prefill: its pages are the listed blocks and then its own 512 keys, so
that the causal mask of its last rows is what attend_bench computes. Planning is timed apart.
"""

import importlib.util
import struct
import sys

SEGMENT, HEADS, KV_HEADS, DIM = 512, 32, 8, 128  # attend_bench's
GROUP = HEADS // KV_HEADS
MAGIC = int.from_bytes(b"EILS", "little")


def read(path):
    """Tokens of a block, segments, and of every list's segments which blocks, or None for all in front."""
    with open(path, "rb") as file:
        data = file.read()
    magic, block, heads, segments = struct.unpack_from("<4i", data)
    if magic != MAGIC:
        sys.exit(f"{path}: not what lists.py writes")
    counts = struct.unpack_from(f"<{heads * segments}i", data, 16)
    at = 16 + 4 * len(counts)
    lists = []
    for count in counts:
        lists.append(None if count < 0 else struct.unpack_from(f"<{count}H", data, at))
        at += 2 * max(count, 0)
    # attend_bench's kv_heads, evenly over those of the file
    chosen = [lists[h * heads // KV_HEADS * segments:][:segments] for h in range(KV_HEADS)]
    return block, segments, chosen


def pages_of(listed, segment, block, size):
    """Blocks of `size` in front of the segment that hold a listed key."""
    before = segment * SEGMENT // size
    if listed is None:
        return list(range(before))
    found = set()
    for one in listed:
        found.update(range(one * block // size, ((one + 1) * block - 1) // size + 1))
    return sorted(page for page in found if page < before)


def plan_of(block, segments, lists, size):
    """(indptr, indices, pairs of a query of one head with a key, density)"""
    each = segments * SEGMENT // size
    indptr, indices = [0], []
    pairs = listed = before = 0
    for head in range(KV_HEADS):
        for segment in range(segments):
            pages = pages_of(lists[head][segment], segment, block, size)
            listed += len(pages) * size
            before += segment * SEGMENT
            pairs += len(pages) * size * SEGMENT + SEGMENT * (SEGMENT + 1) // 2
            own = range(segment * SEGMENT // size, (segment + 1) * SEGMENT // size)
            indices += [head * each + page for page in (*pages, *own)]
            indptr.append(len(indices))
    return indptr, indices, pairs * GROUP, listed / before


def difference(torch, q, cache, out, plan, request, size):
    """Relative, of one request, from attention in f32."""
    pages = torch.tensor(plan[1][plan[0][request]:plan[0][request + 1]], device="cuda")
    k, v = (cache[pages, which].reshape(-1, DIM).float() for which in (0, 1))
    rows = slice(request * SEGMENT, (request + 1) * SEGMENT)
    scores = torch.einsum("thd,kd->htk", q[rows].float(), k) * DIM**-0.5
    mask = torch.ones(SEGMENT, len(pages) * size, device="cuda", dtype=torch.bool).tril(len(pages) * size - SEGMENT)
    exact = torch.einsum("htk,kd->thd", scores.masked_fill(~mask, float("-inf")).softmax(-1), v)
    return ((out[rows].float() - exact).norm() / exact.norm()).item()


def time_size(torch, flashinfer, backend, q, lists, size):
    block, segments, chosen = lists
    plan = plan_of(block, segments, chosen, size)
    pages = KV_HEADS * segments * SEGMENT // size
    cache = torch.rand(pages, 2, size, 1, DIM, device="cuda", dtype=torch.bfloat16) * 2 - 1
    ints = dict(dtype=torch.int32, device="cuda")
    requests = KV_HEADS * segments
    workspace = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend=backend)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    wrapper.plan(torch.arange(requests + 1, **ints) * SEGMENT, torch.tensor(plan[0], **ints), torch.tensor(plan[1], **ints),
                 torch.full((requests,), size, **ints), GROUP, 1, DIM, size, causal=True, q_data_type=torch.bfloat16,
                 kv_data_type=torch.bfloat16)
    end.record()
    end.synchronize()
    planning, times = begin.elapsed_time(end), []
    for i in range(6):
        begin.record()
        out = wrapper.run(q, cache)
        end.record()
        end.synchronize()
        if i > 0:
            times.append(begin.elapsed_time(end))
    ms = sorted(times)[len(times) // 2]
    wrong = difference(torch, q, cache, out, plan, requests // 2, size)
    print(f"flashinfer {backend}, recorded blocks of {size}, {segments * SEGMENT}, {plan[3]:.3f}: {ms:8.2f} ms "
          f"{4 * DIM * plan[2] / ms / 1e9:5.0f} TFLOP/s, difference {wrong:.4f}, planning {planning:.1f} ms", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    missing = [name for name in ("torch", "flashinfer") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"flashinfer: no {' and no '.join(missing)} in this python3, so its sparse prefill is not timed")
        return
    import flashinfer
    import torch

    lists = read(sys.argv[1])
    q = torch.rand(KV_HEADS * lists[1] * SEGMENT, GROUP, DIM, device="cuda", dtype=torch.bfloat16) * 2 - 1
    print("flashinfer", flashinfer.__version__, "torch", torch.__version__)
    for backend in ("fa3", "fa2"):
        for size in [int(argument) for argument in sys.argv[2:]] or [8, 16, 32, 64]:
            try:
                time_size(torch, flashinfer, backend, q, lists, size)
            except Exception as error:  # a version that lacks it, or no compiler where it wants one
                print(f"flashinfer {backend}, blocks of {size}:", (str(error) or repr(error)).splitlines()[0])


if __name__ == "__main__":
    main()
