#!/usr/bin/env python3
"""Which cheap block score comes close to the oracle? A torch emulation of sparse prefill on the embedded model.

Needs torch with a GPU, and the training notes of the reference model on PYTHONPATH (train.py with its task generator);
REF_WORK, INIT and DATA are theirs. Every score gets the same flat budget; layer 0, the first tokens below the threshold
and the last segment stay dense. Prints exact match of teacher-forced answers, perplexity and KL divergence to dense on
the prose, and the products a score needs against the group mean's.

usage: study.py MODEL.gguf LENGTH CONTEXTS BUDGET THRESHOLD ['name;name;...']
A name "but 5.0" is the group mean everywhere except at layer 5, kv_head 0, which scores by midrange; "grown base=1024
sink=16 diffuse=0 early=4" is the choice by habit in which sink heads, diffuse heads and those of layer 0 read at least
one token in so many (0: no share, layer 0 dense); further keys are in grown().
"""
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as functional
import train as ref

import habits
import scores
from scores import SEGMENT, pick

KV_HEADS, GROUP, HEAD_DIM = ref.NKV, ref.NH // ref.NKV, ref.HD


class Sparse:
    """attention of the reference model in which each segment reads the blocks its score likes best"""

    def __init__(self, score, budget, threshold, block=8, first_sparse_layer=1):
        self.score, self.budget, self.threshold, self.block = score, budget, threshold, block
        self.first_sparse_layer = first_sparse_layer
        self.memory, self.products, self.group_mean_products = {}, 0.0, 0.0
        self.read = []  # tokens read of what lies before, by segments

    def __call__(self, layer, q, k, v):
        if layer == 0:
            self.memory = {}
        if layer < self.first_sparse_layer:
            return ref.full(layer, q, k, v)
        contexts, _, tokens, _ = q.shape
        begin, last = self.threshold, (tokens - 1) // SEGMENT * SEGMENT
        out = [ref.full(layer, q[:, :, :begin], k[:, :, :begin], v[:, :, :begin])]
        with torch.autocast('cuda', enabled=False):
            by_pair = lambda x: x.reshape(contexts * KV_HEADS, tokens, HEAD_DIM)
            grouped, keys, values = q.view(-1, GROUP, tokens, HEAD_DIM), by_pair(k), by_pair(v)
            self.memory['prompt'] = grouped, keys.float()
            for at in range(begin, last, SEGMENT):
                out.append(self.segment(layer, at, grouped, keys, values).view(contexts, -1, SEGMENT, HEAD_DIM))
        causal = torch.ones(tokens - last, tokens, dtype=torch.bool).tril(last)
        rows = [ref.sdpa(q[i : i + 1, :, last:], k[i : i + 1], v[i : i + 1], causal) for i in range(contexts)]
        return torch.cat([*out, torch.cat(rows)], 2)

    def segment(self, layer, begin, q, keys, values):
        end, block = begin + SEGMENT, self.block
        q, exact = q[:, :, begin:end], self.memory['prompt'][1]
        s = scores.Segment(q.float(), exact[:, :begin], exact[:, begin:end], block, self.budget, layer, KV_HEADS,
                           self.memory)
        s.places = torch.full((s.pairs,), self.budget // block)
        score = self.score(s)
        self.products += s.products
        self.group_mean_products += SEGMENT * begin
        self.read.append(s.places.clamp(max=s.blocks).float().mean().item() * block)
        count = min(int(s.places.max()), s.blocks)
        chosen = score.topk(count, -1).indices
        slots = (chosen[..., None] * block + torch.arange(block)).flatten(1)
        readable = torch.cat([(torch.arange(count) < s.places[:, None]).repeat_interleave(block, 1),
                              torch.ones(s.pairs, SEGMENT, dtype=torch.bool)], 1)
        causal = torch.cat([torch.ones(SEGMENT, count * block), torch.ones(SEGMENT, SEGMENT).tril()], 1).bool()
        mask = (causal.repeat(GROUP, 1)[None] & readable[:, None])[:, None]
        gathered = [torch.cat([pick(x, slots), x[:, begin:end]], 1)[:, None] for x in (keys, values)]
        return functional.scaled_dot_product_attention(q.reshape(s.pairs, 1, -1, HEAD_DIM), *gathered, attn_mask=mask)


def grown(name, threshold):
    """by habit, with budgets that grow with what lies before: "grown key=value ..." """
    told = {'base': 1024, 'local': 128, 'sink': 16, 'diffuse': 0, 'early': 4, 'edge': 4, 'rated': 2, 'slope': 0,
            'rows': 0.25, 'late': 0.25, 'heads': 0, 'away': 0.5, 'all': 0, 'every': 8,
            'decay': 0.9, 'thin': 0, 'trows': 0.25, 'trated': 2, 'theads': 0}
    told.update((key, float(value)) for key, value in (part.split('=') for part in name.split()[1:]))

    def tokens(s, kind, distant):
        before = s.keys.shape[1]
        least = lambda share: max(told['base'], before / share if share else 0)
        if s.layer == 0:
            return torch.full_like(distant, least(told['early']))
        sink = torch.clamp(told['slope'] * distant * before, min=least(told['sink']))
        rest = torch.where(kind == habits.SINK, sink, least(told['diffuse']))
        return torch.where(kind == habits.LOCAL, told['local'], rest)

    diffuse = scores.rows_by_bound(told['rows'], every_head=bool(told['heads']), rated=int(told['rated']))
    if told['all']:
        diffuse = scores.every_row
    late = scores.rows_by_bound(told['late'], rated=int(told['rated']))
    if told['thin']:  # diffuse heads whose distant share is smaller than this rate in another way
        thin = scores.rows_by_bound(told['trows'], every_head=bool(told['theads']), rated=int(told['trated']))
        usual = {True: scores.every_row if told['theads'] == 2 else thin, False: diffuse}
        diffuse = lambda s: habits.mix(s, s.memory[('habit', s.layer)][:, 1] < told['thin'], usual)
        late = diffuse
    by_layer = lambda s: late(s) if s.layer >= ref.NL * 3 // 4 else diffuse(s)
    sink = scores.rows_by_bound(told['away'], scores.away_rows)
    habit = habits.by_habit(sink, by_layer, every=int(told['every']), decay=told['decay'], over_own=told['edge'],
                            tokens=tokens)
    return Sparse(habit, int(told['base']), threshold, first_sparse_layer=0 if told['early'] else 1)


def variants(budget, threshold):
    made = lambda score, **options: Sparse(score, **{'budget': budget, 'threshold': threshold, **options})
    quarter = scores.rows_by_bound(1 / 4)
    half_away = scores.rows_by_bound(1 / 2, scores.away_rows)
    habit = habits.by_habit(half_away, quarter)
    few_local = lambda s, kind, distant: torch.where(kind == habits.LOCAL, 128, budget)
    table = {
        'full': ref.full,
        'midrange': made(scores.midrange),
        'every row': made(scores.every_row),
        'group mean': made(scores.group_mean),
        'group mean, block 16': made(scores.group_mean, block=16),
        'group mean, 2x budget': made(scores.group_mean, budget=2 * budget),
        'group mean, layer 0 too': made(scores.group_mean, first_sparse_layer=0),
        'mean of 4 keys': made(scores.mean_keys(4)),
        'mean of 4 keys, 4x': made(scores.mean_keys(4, candidates=4)),
        'clusters of 8 keys': made(scores.clustered_keys(8)),
        'clusters of 8 keys, 4x': made(scores.clustered_keys(8, candidates=4)),
        'quarter of rows': made(quarter),
        'by habit': made(habit),
        'by habit, sink heads in full': made(habits.by_habit(scores.away, quarter)),
        'by habit, diffuse heads by query head': made(
            habits.by_habit(half_away, scores.rows_by_bound(1 / 4, every_head=True))),
        'by habit, local 128': made(habits.by_habit(half_away, quarter, tokens=few_local)),
        'by habit, block 16': made(habit, block=16),
        'by habit, layer 0 too': made(habit, first_sparse_layer=0),
        'by habit, probed half as often': made(habits.by_habit(half_away, quarter, every=8)),
    }
    for rated in (2, 3, 4, 8):
        diffuse = scores.rows_by_bound(1 / 4, rated=rated)
        sink = scores.rows_by_bound(1 / 2, scores.away_rows, rated=rated)
        table['rated 1/%d' % rated] = made(habits.by_habit(half_away, diffuse, every=8))
        for block in (16, 32, 64):
            by_share = habits.by_habit(half_away, diffuse, every=8)
            table['rated 1/%d, block %d' % (rated, block)] = made(by_share, block=block)
        table['rated 1/%d, sink heads too' % rated] = made(habits.by_habit(sink, diffuse, every=8))
    diffuse = scores.rows_by_bound(1 / 4, rated=2)
    late = {'midrange': scores.midrange, 'eighth of rows': scores.rows_by_bound(1 / 8, rated=2),
            'eighth of rows, rated 1/4': scores.rows_by_bound(1 / 8, rated=4),
            'sixteenth of rows': scores.rows_by_bound(1 / 16, rated=2)}
    for name, score in late.items():
        by_layer = lambda s, score=score: score(s) if s.layer >= ref.NL * 3 // 4 else diffuse(s)
        table['rated 1/2, late ' + name] = made(habits.by_habit(half_away, by_layer, every=8))
    for name, share in (('3/8', 3 / 8), ('1/4', 1 / 4)):
        sink = scores.rows_by_bound(share, scores.away_rows)
        table['rated 1/2, sink heads %s of rows' % name] = made(habits.by_habit(sink, diffuse, every=8))
    for layer in range(1, ref.NL):
        for head in range(KV_HEADS):
            choices = {0: scores.group_mean, 1: scores.midrange}
            table['but %d.%d' % (layer, head)] = made(habits.fixed({(layer, head): 1}, choices))
    return table


def main():
    model_path, length, contexts, budget, threshold = sys.argv[1], *map(int, sys.argv[2:6])
    torch.set_default_device('cuda')
    torch.backends.cuda.matmul.allow_tf32 = True
    for name in ('books', 'off'):  # the training text is not needed
        if not os.path.exists('%s/%s.npy' % (ref.W, name)):
            np.save('%s/%s.npy' % (ref.W, name), np.zeros(2, dtype=np.int64))
    ref.load()
    model = ref.load_model(model_path, 'cuda').eval()
    table = variants(budget, threshold)
    names = sys.argv[6].split(';') if len(sys.argv) > 6 else [name for name in table if not name.startswith('but')]
    table = {name: grown(name, threshold) if name.startswith('grown') else table[name] for name in ['full', *names]}
    results = {name: {'right': [], 'loss': [], 'divergence': [], 'seconds': 0.0} for name in table}
    generator = ref.Gen(4242 + length, held=True, pnone=0)
    batch = max(1, 131072 // length)
    with torch.no_grad(), ref.amp():
        for begin in range(0, contexts, batch):
            tasks = [('num', 1), ('multi', 1), ('list', 1), ('var', 1)]
            samples = [generator.sample(length, tasks) for _ in range(min(batch, contexts - begin))]
            measure(model, samples, threshold, table, results)
    for name, attention in table.items():
        report(name, attention, results[name])


def report(name, attention, result):
    kinds = sorted({kind for kind, _ in result['right']})
    share = ' '.join('%s %.2f' % (kind, np.mean([ok for k, ok in result['right'] if k == kind])) for kind in kinds)
    price = attention.products / attention.group_mean_products if isinstance(attention, Sparse) else 0
    read = np.mean(attention.read) if isinstance(attention, Sparse) else 0
    print('%-26s %s  perplexity %.2f  KLD %.4f  products %.3f  read %.0f  %.1f s' % (
        name, share, math.exp(np.mean(result['loss'])), np.mean(result['divergence']), price, read, result['seconds']))
    if isinstance(attention, Sparse) and 'kinds' in attention.memory:
        for layer, kinds in attention.memory['kinds'].items():
            kinds = torch.stack(kinds).flatten(0, 1)  # of the last batch
            parts = [[(kinds[:, head] == kind).float().mean() for kind in range(3)] for head in range(KV_HEADS)]
            text = '  '.join('%.2f/%.2f/%.2f' % tuple(part) for part in parts)
            shares = '  '.join('%.3f %.3f' % tuple(x) for x in attention.memory['shares'][layer].tolist())
            print('    layer %d  local/sink/diffuse  %s  first and distant at the end  %s' % (layer, text, shares))


def measure(model, samples, threshold, table, results):
    tokens = torch.from_numpy(np.stack([ids for ids, _ in samples])).cuda()
    embedding, dense = model.e.weight.float(), {}
    for name, attention in table.items():
        start, result = time.time(), results[name]
        hidden = model(tokens, attn=attention).float()
        torch.cuda.synchronize()
        result['seconds'] += time.time() - start
        for i, (ids, codes) in enumerate(samples):
            answers = np.flatnonzero(codes > 1)
            best = (hidden[i, torch.as_tensor(answers - 1)] @ embedding.t()).argmax(-1).cpu().numpy()
            correct = dict(zip(answers.tolist(), (best == ids[answers]).tolist()))
            for span in np.split(answers, np.flatnonzero(np.diff(answers) > 1) + 1):
                result['right'].append((ref.KINDS[codes[span[0]] // 256], all(correct[at] for at in span.tolist())))
            prose = np.flatnonzero(codes == 1)
            prose = torch.as_tensor(prose[prose > threshold + SEGMENT][:: 7 * max(1, len(ids) // 16384)])
            logs = (hidden[i, prose - 1] @ embedding.t()).log_softmax(-1)
            result['loss'].append(-logs.gather(1, tokens[i, prose][:, None]).mean().item())
            reference = dense.setdefault(i, logs)
            result['divergence'].append((reference.exp() * (reference - logs)).sum(-1).mean().item())


if __name__ == '__main__':
    main()
