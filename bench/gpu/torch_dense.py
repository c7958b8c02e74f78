#!/usr/bin/env python3
"""A dense prompt through torch, as an outside witness: the shape of Llama-3.1-8B, random weights in bf16, products by
cuBLAS, attention by cuDNN in one causal call a layer. Prints seconds; a short prompt is read first to warm up.

usage: torch_dense.py [TOKENS ...]
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LAYERS, WIDTH, HEADS, KV_HEADS, DIM, FFN, VOCAB = 32, 4096, 32, 8, 128, 14336, 128256
PIECE = 16384  # rows of one product, so that activations stay small
OPTIONS = dict(device='cuda', dtype=torch.bfloat16)


def matrix(rows, cols):
    return torch.randn(rows, cols, **OPTIONS) * cols**-0.5


class Layer:
    def __init__(self):
        self.qkv = matrix((HEADS + 2 * KV_HEADS) * DIM, WIDTH)
        self.out = matrix(WIDTH, HEADS * DIM)
        self.gate_up = matrix(2 * FFN, WIDTH)
        self.down = matrix(WIDTH, FFN)
        self.norms = torch.ones(2, WIDTH, **OPTIONS)


def rotate(x, cos, sin):  # [tokens, heads, DIM]
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def attend(q, k, v):  # [1, heads, tokens, DIM]
    try:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    except RuntimeError:  # a torch that does not hand groups to cuDNN
        k, v = (x.repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@torch.inference_mode()
def prompt(layers, table, tokens):
    torch.cuda.synchronize()
    begun = time.time()
    x = table[torch.randint(VOCAB, (tokens,), device='cuda')]
    inverse = 500000.0 ** (-torch.arange(0, DIM, 2, device='cuda') / DIM)
    angles = torch.outer(torch.arange(tokens, device='cuda'), inverse)
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    q, k, v = (torch.empty(1, heads, tokens, DIM, **OPTIONS) for heads in (HEADS, KV_HEADS, KV_HEADS))
    pieces = [slice(first, min(first + PIECE, tokens)) for first in range(0, tokens, PIECE)]
    for layer in layers:
        for rows in pieces:
            qkv = (F.rms_norm(x[rows], (WIDTH,), layer.norms[0]) @ layer.qkv.T).view(rows.stop - rows.start, -1, DIM)
            parts = qkv.split([HEADS, KV_HEADS, KV_HEADS], dim=1)
            q[0, :, rows] = rotate(parts[0], cos[rows], sin[rows]).transpose(0, 1)
            k[0, :, rows] = rotate(parts[1], cos[rows], sin[rows]).transpose(0, 1)
            v[0, :, rows] = parts[2].transpose(0, 1)
        attended = attend(q, k, v)
        for rows in pieces:
            x[rows] += attended[0, :, rows].transpose(0, 1).reshape(rows.stop - rows.start, -1) @ layer.out.T
            gate, up = (F.rms_norm(x[rows], (WIDTH,), layer.norms[1]) @ layer.gate_up.T).chunk(2, dim=-1)
            x[rows] += (F.silu(gate) * up) @ layer.down.T
    torch.cuda.synchronize()
    return time.time() - begun


def main():
    torch.manual_seed(1)
    layers = [Layer() for _ in range(LAYERS)]
    table = torch.randn(VOCAB, WIDTH, **OPTIONS)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        prompt(layers, table, 8192)
        for tokens in [int(argument) for argument in sys.argv[1:]] or [32768, 131072]:
            print('torch %s, cuDNN %s: %d tokens %.3f s' %
                  (torch.__version__, torch.backends.cudnn.version(), tokens, prompt(layers, table, tokens)), flush=True)


if __name__ == '__main__':
    main()
