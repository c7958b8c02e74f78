"""Golden cases with other seeds: what the rules of CritiPrefill, SnapKV and AdaKV give on other inputs, in plain loops and doubles.

The cases of the tree are what the authors' code returned. Here the same rules (README.md, and the comments below) are written
down once more, so that tests/golden sees shapes and numbers that it was not made with. A cut between values that float32 may
order otherwise is `near`, as in the tree.
"""
import math
import operator
import struct

MASK = (1 << 64) - 1
NEAR = 1e-5


def mix(x):
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def step(x, value):
    return mix((x + 0x9E3779B97F4A7C15 * (value + 1)) & MASK)


class Inputs:
    """q [head][token][dim], k and v [kv_head][token][dim] of one layer, as the generator makes them."""

    def __init__(self, made, layer):
        self.made, self.layer, self.seed = made, layer, int(made['seed'])
        tokens, dims = range(made['n_tokens']), range(made['head_dim'])
        self.group = made['n_head'] // made['n_head_kv']
        self.q = [[self.query(head, t, dims) for t in tokens] for head in range(made['n_head'])]
        self.k = [[self.key(head, t, dims) for t in tokens] for head in range(made['n_head_kv'])]
        self.v = [[[one * 2.0 ** -made['exp_v'] for one in self.noise(2, head, t, dims, 128)] for t in tokens]
                  for head in range(made['n_head_kv'])]

    def base(self, kind, head):
        return step(step(step(self.seed, kind), self.layer), head)

    def noise(self, kind, head, t, dims, amp):
        at = step(self.base(kind, head), t)
        return [((step(at, d) >> 56) - 128) * amp >> 7 for d in dims]

    def signs(self, kv_head, topic, dims):
        at = step(self.base(3, kv_head), topic)
        return [-1 if step(at, d) >> 63 else 1 for d in dims]

    def key(self, head, t, dims):
        made, p = self.made, self.made['kv_heads'][head]
        block = t // made['content_block']
        topic = p['table_k'][step(self.base(4, head), block) >> 60]
        at = topic * made['content_block'] + t % made['content_block'] if p['dup'] else t
        rows = zip(self.signs(head, topic, dims), self.signs(head, 8, dims), self.noise(1, head, at, dims, p['amp_k']))
        return [(p['gk'] * own + (p['gks'] * sink if block == 0 else 0) + noise) * 2.0 ** -made['exp_k'] for own, sink, noise in rows]

    def query(self, head, t, dims):
        made, kv_head = self.made, head // self.group
        p = made['kv_heads'][kv_head]
        topics = p['query_topics']
        topic = topics[(t // made['content_segment'] + head % self.group * p['qshift']) % len(topics)]
        rows = zip(self.signs(kv_head, topic, dims), self.signs(kv_head, 8, dims), self.noise(0, head, t, dims, p['amp_q']))
        return [(p['gq'][topic] * own + p['gqs'][topic] * sink + noise) * 2.0 ** -made['exp_q'] for own, sink, noise in rows]

    def checksum(self, values):
        sum64 = 0xcbf29ce484222325
        for head in values:
            for row in head:
                for byte in struct.pack('<%df' % len(row), *row):
                    sum64 = ((sum64 ^ byte) * 0x100000001b3) & MASK
        return '%016x' % sum64


def dot(a, b):
    return sum(map(operator.mul, a, b))


def best(values, count):
    """The highest, the lower index among equals."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]


def cut_of(values, count, first=0):
    """The list, and the band around its cut where float32 cannot be sure; ties are no doubt."""
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    chosen, band, kind = order[:count], [], None
    if 0 < count < len(values):
        last, following = values[order[count - 1]], values[order[count]]
        if abs(last - following) <= NEAR * abs(last):
            band = [i for i in range(len(values)) if abs(values[i] - last) <= 2 * NEAR * abs(last)]
            kind = 'exact' if all(values[i] == last for i in band) else 'near'
    return sorted(chosen), sorted(band), kind


class Folder:
    """The arrays of a folder, in one file."""

    def __init__(self):
        self.packed = bytearray()

    def array(self, values, shape, dtype):
        at = len(self.packed)
        self.packed += struct.pack('<%d%s' % (len(values), 'f' if dtype == 'f32' else 'i'), *values)
        return {'file': 'all.bin', 'offset': at, 'dtype': dtype, 'shape': shape}

    def lists(self, lists):
        offsets = [0]
        for one in lists:
            offsets.append(offsets[-1] + len(one))
        flat = [value for one in lists for value in one]
        return {'offsets': self.array(offsets, [len(offsets)], 'i32'), 'indices': self.array(flat, [len(flat)], 'i32')}

    def chosen(self, cuts, name_of):
        """`cuts` as cut_of gives them; name_of(row): whose list that is"""
        stored = {'lists': self.lists([cut[0] for cut in cuts])}
        doubtful = [dict(name_of(row), ambiguous=True, kind=cut[2]) for row, cut in enumerate(cuts) if cut[2]]
        if doubtful:
            stored.update(ambiguous=doubtful, band=self.lists([cut[1] for cut in cuts]))
        return stored


def critiprefill(folder, case, layers):
    """Mid-ranges of segments against extremes of blocks, mean over the group, softmax, blended with the layer before."""
    params, made = case['params'], case['generator']
    S, B, tokens = params['S'], params['B'], made['n_tokens']
    segments = -(-tokens // S)
    case.update(segments=segments, blocks=(segments - 1) * S // B,
                sparse_segments=[s for s in range(segments) if s * S >= params['T'] and (s + 1) * S < tokens])
    previous = None
    for layer in layers:
        inputs, scores, share = layer['inputs'], {}, {}
        for head in range(made['n_head_kv']):
            keys = [list(zip(*inputs.k[head][j * B:(j + 1) * B])) for j in range(case['blocks'])]
            extremes = [([max(c) for c in block], [min(c) for c in block]) for block in keys]
            for s in range(1, segments):
                sums = [0.0] * (s * S // B)
                for g in range(inputs.group):
                    columns = list(zip(*inputs.q[head * inputs.group + g][s * S:(s + 1) * S]))
                    middle = [(max(c) + min(c)) / 2 for c in columns]
                    for j in range(len(sums)):
                        sums[j] += max(dot(middle, extremes[j][0]), dot(middle, extremes[j][1]))
                z = scores[head, s] = [one / inputs.group for one in sums]
                top = max(z)
                weights = [math.exp(one - top) for one in z]
                p = [one / sum(weights) for one in weights]
                if params['layer_fusion'] and layer['layer'] > 1 and previous:
                    p = [0.25 * before + 0.75 * own for before, own in zip(previous[head, s], p)]
                share[head, s] = p
        previous = share
        places = [(head, s) for head in range(made['n_head_kv']) for s in case['sparse_segments']]
        ranked = share if params['layer_fusion'] else scores  # without fusion shares may be zero in float32: by scores alone
        cuts = [cut_of(ranked[place], min(params['budget'] // B, place[1] * S // B)) for place in places]
        selected = folder.chosen(cuts, lambda row: {'kv_head': places[row][0], 'segment': places[row][1]})
        layer['fields'] = {'selected': {'collapsed': selected}}
        if params['layer_fusion']:
            layer['fields']['selected']['released'] = selected


def pooled(values, kernel, pool):
    half = kernel // 2
    out = []
    for i in range(len(values)):
        near = values[max(0, i - half):i + half + 1]
        out.append(max(near) if pool == 'max' else sum(near) / kernel)
    return out


def window_scores(inputs, head, W):
    """Of the last W queries: the sum of their attention, slot by slot, outside of the window."""
    keys, tokens = inputs.k[head // inputs.group], len(inputs.q[head])
    sums = [0.0] * (tokens - W)
    for t in range(tokens - W, tokens):
        logits = [dot(inputs.q[head][t], key) / math.sqrt(len(key)) for key in keys[:t + 1]]
        top = max(logits)
        weights = [math.exp(one - top) for one in logits]
        total = sum(weights)
        for slot in range(tokens - W):
            sums[slot] += weights[slot] / total
    return sums


def of_groups(inputs, W):
    """The mean over the heads of each kv_head."""
    heads = [window_scores(inputs, head, W) for head in range(len(inputs.q))]
    groups = [heads[first:first + inputs.group] for first in range(0, len(heads), inputs.group)]
    return heads, [[sum(column) / len(column) for column in zip(*group)] for group in groups]


def keep(folder, scores, counts, W):
    """The best of each row, and the window."""
    cuts = []
    for row, count in zip(scores, counts):
        chosen, band, kind = cut_of(row, count)
        cuts.append((chosen + list(range(len(row), len(row) + W)), band, kind))
    return folder.chosen(cuts, lambda row: {'head': row})


def snapkv(folder, case, layers):
    params, made = case['params'], case['generator']
    W, tokens = params['W'], made['n_tokens']
    params['query_positions'] = [tokens - W, tokens - 1]
    for layer in layers:
        parts = []
        for rows in of_groups(layer['inputs'], W):
            rows = [pooled(row, params['kernel'], params['pool']) for row in rows]
            flat = [value for row in rows for value in row]
            parts.append({'scores': folder.array(flat, [len(rows), tokens - W], 'f32'),
                          'keep': keep(folder, rows, [params['budget'] - W] * len(rows), W)})
        released = dict(parts[0], compressed=True, granularity='head', cache_heads=made['n_head'], cache_slots=params['budget'])
        layer['fields'] = {'released': released, 'ours': [dict(parts[1], aggregate='mean')]}


def adakv(folder, case, layers):
    params, made = case['params'], case['generator']
    W, tokens, count = params['W'], made['n_tokens'], params['n_layer']
    for index, layer in enumerate(layers):
        base = params['budget'] - W
        if params['pyramid']:
            least = base // 20
            most = 2 * base - least
            if most >= tokens - W:
                most, least = tokens - W, 2 * base - (tokens - W)
            base = most - index * ((most - least) // (count - 1))
        means = [[one / W for one in row] for row in of_groups(layer['inputs'], W)[1]]
        rows = [pooled(row, params['kernel'], params['pool']) for row in means]
        flat = [value for row in rows for value in row]
        order = best(flat, len(rows) * base)
        _, _, kind = cut_of(flat, len(rows) * base)
        counts = [sum(1 for at in order if at // len(rows[0]) == head) for head in range(len(rows))]
        floor = params['floor_alpha']
        budgets = [round((1 - floor) * own + math.floor(floor * base)) for own in counts]
        layer['fields'] = {'base': base, 'compressed': True, 'head_lens': [one + W for one in budgets],
                           'scores': folder.array(flat, [len(rows), tokens - W], 'f32'), 'counts': counts, 'budgets': budgets,
                           'counts_ambiguous': kind == 'near', 'keep': keep(folder, rows, budgets, W)}


RULES = {'critiprefill': critiprefill, 'snapkv': snapkv, 'adakv': adakv}


def cases(manifest, changes):
    """Of {case of the tree: what its generator and parameters have instead}: the manifest and the bytes of such a folder."""
    folder = Folder()
    made = []
    for case in manifest['cases']:
        if case['name'] not in changes:
            continue
        generator, params = changes[case['name']]
        case['name'] = 'other_' + case['name']
        case['generator'].update(generator)
        case['params'].update(params)
        layers = []
        for layer in case['layers']:
            inputs = Inputs(case['generator'], layer['layer'])
            sums = {name: inputs.checksum(getattr(inputs, name)) for name in 'qkv'}
            layers.append({'layer': layer['layer'], 'inputs': inputs, 'checksums': sums})
        first = layers[0]['inputs']
        case['first_values'] = {name: getattr(first, name)[0][0][:8] for name in 'qkv'}
        RULES[case['method']](folder, case, layers)
        case['layers'] = [{key: value for key, value in layer.items() if key != 'inputs'} for layer in layers]
        made.append(case)
    manifest['cases'] = made
    return manifest, folder.packed
