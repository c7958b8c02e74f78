#!/usr/bin/env python3
"""Which cheap block score comes close to the oracle? A torch emulation of sparse prefill on the embedded model.

Needs torch with a GPU, and the training notes of the reference model on PYTHONPATH (train.py with its task generator);
REF_WORK, INIT and DATA are theirs. Every score gets the same flat budget; layer 0, the first tokens below the threshold
and the last segment stay dense. Prints exact match of teacher-forced answers, perplexity and KL divergence to dense.

usage: study.py MODEL.gguf LENGTH CONTEXTS BUDGET THRESHOLD [name,name,...]
"""
import math
import sys
import time

import numpy as np
import torch
import train as ref

SEGMENT = 512
HEAD_DIM, KV_HEADS, GROUP = ref.HD, ref.NKV, ref.NH // ref.NKV
SCALE = 1 / math.sqrt(HEAD_DIM)


class Segment:
    """What a score may look at: Q [group, rows, dim] of one segment, the keys before it and its own."""

    def __init__(self, q, keys, own, block):
        self.q, self.keys, self.own, self.block = q, keys, own, block
        self.blocks = len(keys) // block
        self.causal = torch.ones(len(own), len(own), dtype=torch.bool).tril()

    def own_normaliser(self, q):
        """log-sum-exp of each row's logits against its own segment, causally"""
        logits = (q @ self.own.t()) * SCALE
        return logits.masked_fill(~self.causal, -1e30).logsumexp(-1).reshape(-1)

    def by_block(self, logits):
        return logits.view(len(logits), self.blocks, -1)


def midrange(s):
    """the published score: the middle of the queries' range against the range of each block's keys"""
    mid = (s.q.amax(1) + s.q.amin(1)) / 2
    blocks = s.keys.view(s.blocks, s.block, HEAD_DIM)
    return torch.maximum(mid @ blocks.amax(1).t(), mid @ blocks.amin(1).t()).mean(0)


def normalised_peak(s, q, logits):
    """each row's best key per block, relative to all the row attends to; then the row that wants the block most"""
    peaks = s.by_block(logits).amax(-1)
    normaliser = torch.logaddexp(peaks.logsumexp(-1), s.own_normaliser(q))
    return (peaks - normaliser[:, None]).amax(0)


def every_row(s):
    """all rows of all heads, all keys: the oracle but for the sum inside a block"""
    return normalised_peak(s, s.q, (s.q.reshape(-1, HEAD_DIM) @ s.keys.t()) * SCALE)


def group_mean(s):
    """one query per token, the mean over the group's heads: 1 / group of the products"""
    q = s.q.mean(0, keepdim=True)
    return normalised_peak(s, q, (q[0] @ s.keys.t()) * SCALE)


def mean_keys(width):
    """every row against the mean of each `width` keys"""

    def score(s):
        means = s.keys.view(-1, width, HEAD_DIM).mean(1)
        return normalised_peak(s, s.q, (s.q.reshape(-1, HEAD_DIM) @ means.t()) * SCALE)

    return score


def sparse(score, block=8, budget=1024, threshold=4096, first_sparse_layer=1):
    def attention(layer, q, k, v):
        if layer < first_sparse_layer:
            return ref.full(layer, q, k, v)
        tokens = q.shape[2]
        last = (tokens - 1) // SEGMENT * SEGMENT
        out = [ref.full(layer, q[:, :, :threshold], k[:, :, :threshold], v[:, :, :threshold])]
        with torch.autocast('cuda', enabled=False):
            for begin in range(threshold, last, SEGMENT):
                out.append(attend_segment(score, block, budget, begin, q, k, v))
        rows = tokens - last
        out.append(ref.sdpa(q[:, :, last:], k, v, torch.ones(rows, tokens, dtype=torch.bool).tril(tokens - rows)))
        return torch.cat(out, 2)

    return attention


def attend_segment(score, block, budget, begin, q, k, v):
    end = begin + SEGMENT
    out = torch.empty(1, ref.NH, SEGMENT, HEAD_DIM, dtype=q.dtype)
    for head in range(KV_HEADS):
        heads = slice(head * GROUP, (head + 1) * GROUP)
        rows = q[0, heads, begin:end]
        segment = Segment(rows.float(), k[0, head, :begin].float(), k[0, head, begin:end].float(), block)
        chosen = score(segment).topk(min(budget // block, segment.blocks)).indices
        slots = (chosen[:, None] * block + torch.arange(block)).reshape(-1)
        keys = torch.cat([k[0, head, slots], k[0, head, begin:end]])
        values = torch.cat([v[0, head, slots], v[0, head, begin:end]])
        mask = torch.cat([torch.ones(SEGMENT, len(slots), dtype=torch.bool), segment.causal], 1)
        wide = lambda x: x[None, None].expand(1, GROUP, -1, -1)
        out[0, heads] = ref.sdpa(rows[None], wide(keys), wide(values), mask)[0]
    return out


def main():
    model_path, length, contexts, budget, threshold = sys.argv[1], *map(int, sys.argv[2:6])
    torch.set_default_device('cuda')
    ref.load()
    model = ref.load_model(model_path, 'cuda').eval()
    made = lambda score, **options: sparse(score, **{'budget': budget, 'threshold': threshold, **options})
    variants = {
        'full': ref.full,
        'midrange': made(midrange),
        'every row': made(every_row),
        'group mean': made(group_mean),
        'group mean, block 16': made(group_mean, block=16),
        'group mean, 2x budget': made(group_mean, budget=2 * budget),
        'group mean, layer 0 too': made(group_mean, first_sparse_layer=0),
        'mean of 2 keys': made(mean_keys(2)),
        'mean of 4 keys': made(mean_keys(4)),
        'mean of 8 keys': made(mean_keys(8)),
    }
    if len(sys.argv) > 6:
        variants = {name: variants[name] for name in sys.argv[6].split(',')}
    generator = ref.Gen(4242 + length, held=True, pnone=0)
    right, loss, divergence, seconds = ({name: [] for name in variants} for _ in range(4))
    with torch.no_grad(), ref.amp():
        for _ in range(contexts):
            ids, codes = generator.sample(length, [('num', 1), ('multi', 1), ('list', 1), ('var', 1)])
            measure(model, ids, codes, threshold, variants, right, loss, divergence, seconds)
    for name in variants:
        kinds = sorted({kind for kind, _ in right[name]})
        share = ' '.join('%s %.2f' % (kind, np.mean([ok for k, ok in right[name] if k == kind])) for kind in kinds)
        print('%-24s %s  perplexity %.2f  KLD %.4f  %.2f s' % (name, share, math.exp(np.mean(loss[name])),
                                                             np.mean(divergence[name]), np.mean(seconds[name])))


def measure(model, ids, codes, threshold, variants, right, loss, divergence, seconds):
    tokens = torch.from_numpy(ids)[None].cuda()
    answers = np.flatnonzero(codes > 1)
    spans = np.split(answers, np.flatnonzero(np.diff(answers) > 1) + 1)
    prose = np.flatnonzero(codes == 1)
    prose = torch.as_tensor(prose[prose > threshold + SEGMENT][::7], device='cuda')
    table = model.e.weight.float()
    dense = None
    for name, attention in variants.items():
        start = time.time()
        hidden = model(tokens, attn=attention)[0].float()
        best = (hidden[torch.as_tensor(answers - 1, device='cuda')] @ table.t()).argmax(-1).cpu().numpy()
        seconds[name].append(time.time() - start)
        correct = dict(zip(answers.tolist(), (best == ids[answers]).tolist()))
        for span in spans:
            right[name].append((ref.KINDS[codes[span[0]] // 256], all(correct[i] for i in span.tolist())))
        logs = (hidden[prose - 1] @ table.t()).log_softmax(-1)
        loss[name].append(-logs.gather(1, tokens[0][prose][:, None].long()).mean().item())
        dense = logs if dense is None else dense
        divergence[name].append((dense.exp() * (dense - logs)).sum(-1).mean().item())


if __name__ == '__main__':
    main()
