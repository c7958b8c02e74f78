"""Block scores for a sparse prefill, batched over pairs (context × kv_head).

A score takes a Segment and returns one number per earlier block, [pairs, blocks]; the highest are attended to. It
counts its own products with `segment.count`, so that prices can be compared with the group mean's (512 rows × every
key).
"""
import math

import torch

SEGMENT = 512
NEVER = -1e30


class Segment:
    """What a score may look at: queries [pairs, group, rows, dim], the keys before them and their own."""

    def __init__(self, q, keys, own, block, budget, layer, heads, memory):
        self.q, self.keys, self.own, self.block, self.budget = q, keys, own, block, budget
        self.layer, self.heads, self.memory = layer, heads, memory  # memory: lives as long as the prompt
        self.pairs, self.dim = len(q), q.shape[-1]
        self.blocks = keys.shape[1] // block
        self.scale = 1 / math.sqrt(self.dim)
        self.mean_rows = q.mean(1)
        self.products = 0.0

    def count(self, rows, keys):
        self.products += rows * keys

    def logits(self, rows, keys):
        self.count(rows.shape[1], keys.shape[1])
        return (rows @ keys.mT) * self.scale

    def own_weight(self, rows):
        """log-sum-exp of each row's logits against its own segment, causally"""
        causal = torch.ones(SEGMENT, SEGMENT, dtype=torch.bool).tril()
        return ((rows @ self.own.mT) * self.scale).masked_fill(~causal, NEVER).logsumexp(-1)

    def peaks(self, rows):
        """[pairs, rows, blocks]: the best logit of each row in each block"""
        return self.logits(rows, self.keys).unflatten(-1, (self.blocks, self.block)).amax(-1)

    def best_of_keys(self, key_scores):
        return key_scores.unflatten(-1, (self.blocks, self.block)).amax(-1)


def pick(x, index):
    """x [pairs, n, dim], index [pairs, m] -> [pairs, m, dim]"""
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


def normalised(peaks, own):
    """log-share of each block in all that the row attends to: block peaks and its own segment"""
    return peaks - torch.logaddexp(peaks.logsumexp(-1), own)[..., None]


def midrange(s):
    """the published score: the middle of the queries' range against the range of each block's keys"""
    middle = (s.q.amax(2) + s.q.amin(2)) / 2
    blocks = s.keys.unflatten(1, (s.blocks, s.block))
    return torch.maximum(middle @ blocks.amax(2).mT, middle @ blocks.amin(2).mT).mean(1)


def recent(s):
    """no choice at all: the first block and the last ones"""
    score = torch.arange(s.blocks).float()
    score[0] = s.blocks
    return score.expand(s.pairs, -1)


def every_row(s):
    """all rows of all heads against all keys: the oracle but for the sum inside a block"""
    return torch.stack([normalised(s.peaks(rows), s.own_weight(rows)).amax(1) for rows in s.q.unbind(1)]).amax(0)


def group_mean(s, rows=None):
    """one query per token, by default the mean over the group's heads"""
    rows = s.mean_rows if rows is None else rows
    return normalised(s.peaks(rows), s.own_weight(rows)).amax(1)


def away_rows(s):
    """one query per token: heads weighted by how little they find in their own segment"""
    own = torch.stack([s.own_weight(rows) for rows in s.q.unbind(1)], 1)
    return (s.q * (-own).softmax(1)[..., None]).sum(1)


def away(s):
    return group_mean(s, away_rows(s))


def bounds(s, rows, width=64):
    """[pairs, rows, super-blocks]: upper bound of the row's logits there, against what its own segment and the first
    block give it"""
    first = (rows @ s.keys[:, : s.block].mT).amax(-1) * s.scale
    far = torch.cat([s.keys[:, s.block : s.block + 1].expand(-1, s.block, -1), s.keys[:, s.block :]], 1)
    far = far.unflatten(1, (-1, width))
    bound = rows.clamp(min=0) @ far.amax(2).mT + rows.clamp(max=0) @ far.amin(2).mT
    s.count(2 * SEGMENT, far.shape[1])
    return bound * s.scale - torch.logaddexp(s.own_weight(rows), first)[..., None]


def rows_by_bound(share, make_rows=lambda s: s.mean_rows, every_head=False, rated=1, least=4096):
    """exact scores, but only of the rows with the largest upper bounds; with rated > 1 only in the 1/rated of the
    super-blocks with the largest ones (the candidates), and never fewer than `least` keys"""

    def score(s):
        rows = make_rows(s)
        gaps = bounds(s, rows)
        chosen = gaps.amax(-1).topk(int(SEGMENT * share), -1).indices
        highest = gaps.amax(1)
        highest[:, 0] = -NEVER
        width = s.keys.shape[1] // highest.shape[1]
        count = min(highest.shape[1], max(least // width, highest.shape[1] // rated))
        kept = torch.zeros_like(highest, dtype=torch.bool).scatter(1, highest.topk(count, -1).indices, True)
        kept = kept.repeat_interleave(width // s.block, 1)
        s.products -= (1 - count / highest.shape[1]) * chosen.shape[1] * s.keys.shape[1]
        best = []
        for head_rows in s.q.unbind(1) if every_head else [rows]:
            own = s.own_weight(head_rows).gather(1, chosen)
            peaks = s.peaks(pick(head_rows, chosen)).masked_fill(~kept[:, None], NEVER)
            best.append(normalised(peaks, own).amax(1).masked_fill(~kept, NEVER))
        return torch.stack(best).amax(0)

    return score


def coarse(s, keys, key_of, candidates):
    """group mean against representatives (key_of [pairs, n]: which one stands for a key); exact in the best keys"""
    own = s.own_weight(s.mean_rows)
    scores = normalised(s.logits(s.mean_rows, keys), own).amax(1).gather(1, key_of)
    if not candidates:
        return s.best_of_keys(scores)
    chosen = scores.topk(min(candidates * s.budget, scores.shape[1]), -1).indices
    exact = normalised(s.logits(s.mean_rows, pick(s.keys, chosen)), own).amax(1)
    return torch.full((s.pairs, s.blocks), NEVER).scatter_reduce(1, chosen // s.block, exact, 'amax')


def mean_keys(width, candidates=0):
    def score(s):
        key_of = (torch.arange(s.keys.shape[1]) // width).expand(s.pairs, -1)
        return coarse(s, s.keys.unflatten(1, (-1, width)).mean(2), key_of, candidates)

    return score


def clustered_keys(width, candidates=0, rounds=3):
    """as mean_keys, but of similar keys: k-means inside each 512 keys"""

    def score(s):
        seen = s.memory.setdefault(('clusters', s.layer, width), [])
        for begin in range(len(seen) * SEGMENT, s.keys.shape[1], SEGMENT):
            seen.append(k_means(s.keys[:, begin : begin + SEGMENT], SEGMENT // width, rounds))
        key_of = torch.cat([labels + i * (SEGMENT // width) for i, (_, labels) in enumerate(seen)], 1)
        return coarse(s, torch.cat([centres for centres, _ in seen], 1), key_of, candidates)

    return score


def k_means(keys, count, rounds):
    centres = keys[:, :: keys.shape[1] // count]
    for _ in range(rounds + 1):
        labels = (keys @ centres.mT - centres.square().sum(-1)[:, None] / 2).argmax(-1)
        size = torch.zeros(centres.shape[:2]).scatter_add(1, labels, torch.ones(labels.shape))
        total = torch.zeros_like(centres).scatter_add(1, labels[..., None].expand_as(keys), keys)
        centres = torch.where(size[..., None] > 0, total / size[..., None].clamp(min=1), centres)
    return centres, labels
