"""Scores by the type of a head (docs/glossary.md): each (layer, kv_head) pair is rated as its type asks for."""
import torch

from scores import NEVER, SEGMENT, normalised, recent

LOCAL, SINK, DIFFUSE = range(3)


def mix(s, kind, choices):
    """choices[k] scores the pairs of kind k; products are counted for those pairs alone"""
    total, out = s.products, None
    for which, score in choices.items():
        share = (kind == which).float().mean().item()
        if not share:
            continue
        s.products = 0.0
        scores = score(s)
        total += s.products * share
        out = scores if out is None else torch.where((kind == which)[:, None], scores, out)
    s.products = total
    return out


def fixed(table, choices):
    """table: (layer, kv_head) -> kind, for ablations; kind 0 where nothing is said"""

    def score(s):
        kind = torch.tensor([table.get((s.layer, head), 0) for head in range(s.heads)])
        return mix(s, kind.repeat(s.pairs // s.heads), choices)

    return score


def probe(rows, keys, own, scale, sample):
    """[pairs, 2]: mean share of attention on the first block, and on what lies further back than 512 keys"""
    rows = rows[:, sample]
    peaks = ((rows @ keys.mT) * scale).unflatten(-1, (-1, 8)).amax(-1)
    causal = torch.ones(SEGMENT, SEGMENT, dtype=torch.bool).tril()[sample]
    shares = normalised(peaks, ((rows @ own.mT) * scale).masked_fill(~causal, NEVER).logsumexp(-1)).exp()
    return torch.stack([shares[..., 0].mean(1), shares[..., 1 : -SEGMENT // 8].sum(-1).mean(1)], -1)


def by_habit(sink, diffuse, local=recent, every=4, step=16, distant_share=0.015, floor=0.003, decay=0.9, over_own=1,
             tokens=None):
    """Sorts heads by the text so far. local: rows look no further back than about a segment; sink: they rest on the
    first block and look up at times; diffuse: all others. Measured on all rows while the prompt is dense, then on
    every `step`-th row of every `every`-th segment. Budgets are equal unless `tokens` (of a segment, the kinds and the
    distant shares of its pairs) says what each reads."""

    def score(s):
        habit = s.memory.get(('habit', s.layer))
        if habit is None:
            q, keys = s.memory['prompt']
            spans = [slice(begin, begin + SEGMENT) for begin in range(2 * SEGMENT, s.keys.shape[1], SEGMENT)]
            probes = [probe(q[:, :, at].float().mean(1), keys[:, : at.start], keys[:, at], s.scale, slice(None))
                      for at in spans]
            habit = torch.stack(probes).mean(0)
        elif s.keys.shape[1] // SEGMENT % every == 0:
            now = probe(s.mean_rows, s.keys, s.own, s.scale, slice(step // 2, None, step))
            s.count(SEGMENT // step, s.keys.shape[1])
            habit = decay * habit + (1 - decay) * now
        s.memory[('habit', s.layer)] = habit
        first, distant = habit.unbind(-1)
        near = 1 - first - distant
        kind = torch.where(first > over_own * near, SINK, DIFFUSE)
        kind = torch.where((distant < distant_share * (1 - first)) | (distant < floor), LOCAL, kind)
        if tokens is not None:
            s.places = (tokens(s, kind, distant) // s.block).int()
        s.memory.setdefault('shares', {})[s.layer] = habit.view(-1, s.heads, 2).mean(0)
        s.memory.setdefault('kinds', {}).setdefault(s.layer, []).append(kind.view(-1, s.heads))
        return mix(s, kind, {LOCAL: local, SINK: sink, DIFFUSE: diffuse})

    return score
