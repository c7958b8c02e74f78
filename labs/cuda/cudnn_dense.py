#!/usr/bin/env python3
"""Dense causal attention by cuDNN through torch: the rate that attend_bench is measured beside (32 heads on 8 x 128)."""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def median_ms(run, repeats=5):
    times = []
    for i in range(repeats + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i > 0:
            times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def attend(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def main():
    lengths = [int(argument) for argument in sys.argv[1:]] or [32768, 65536, 131072]
    print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]), torch.no_grad():
        for tokens in lengths:
            q = torch.rand(1, 32, tokens, 128, device="cuda", dtype=torch.bfloat16) * 2 - 1
            k, v = (torch.rand(1, 8, tokens, 128, device="cuda", dtype=torch.bfloat16) * 2 - 1 for _ in range(2))
            groups = "8 kv_heads"
            try:
                attend(q, k, v)
            except RuntimeError:  # a torch that does not hand groups to cuDNN
                k, v = (x.repeat_interleave(4, dim=1) for x in (k, v))
                groups = "32 kv_heads"
            ms = median_ms(lambda: attend(q, k, v))
            flops = 4 * 128 * 32 * tokens * (tokens + 1) / 2
            print(f"cuDNN dense {tokens:6d}, {groups}: {ms:8.2f} ms {flops / ms / 1e9:5.0f} TFLOP/s", flush=True)
        for dim in (64, 96, 256):
            tokens = 32768
            q = torch.rand(1, 32, tokens, dim, device="cuda", dtype=torch.bfloat16) * 2 - 1
            k, v = (torch.rand(1, 8, tokens, dim, device="cuda", dtype=torch.bfloat16) * 2 - 1 for _ in range(2))
            try:
                ms = median_ms(lambda: attend(q, k, v))
                print(f"cuDNN dense {tokens}, head_dim {dim}: {ms:.2f} ms "
                      f"{4 * dim * 32 * tokens * (tokens + 1) / 2 / ms / 1e9:.0f} TFLOP/s")
            except RuntimeError as error:
                print(f"cuDNN dense, head_dim {dim}:", str(error).splitlines()[0])
        # One query row per head against a long cache.
        k, v = (torch.rand(1, 8, 131072, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        q = torch.rand(1, 32, 1, 128, device="cuda", dtype=torch.bfloat16)
        try:
            run = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            ms = median_ms(run)
            print(f"cuDNN decode 131072 keys: {ms:.4f} ms {2 * 131072 * 8 * 128 * 2 / ms / 1e9:.2f} TB/s")
        except RuntimeError as error:
            print("cuDNN decode:", str(error).splitlines()[0])


if __name__ == "__main__":
    main()
