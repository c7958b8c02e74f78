#!/usr/bin/env python3
"""Time and memory against the length of a prompt, as an SVG, from tables that device_bench printed.

usage: plot.py TABLE [TABLE ...] > lengths.svg      (of rows for one length and method the last one counts)
"""
import math
import sys

COLOURS = {'full': '#555555', 'entropyinfer@samples': '#c0392b', 'entropyinfer@lists': '#2471a3'}
NAMES = {
    'full': 'full attention',
    'entropyinfer@samples': 'entropyinfer, a trained model\'s samples given',
    'entropyinfer@lists': 'entropyinfer, its lists given: nothing measured',
}
WIDTH, HEIGHT, LEFT, TOP = 360, 260, 52, 46


def rows(paths):
    found = {}
    for path in paths:
        for line in open(path):
            cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
            if len(cells) >= 16 and cells[0].isdigit() and cells[1] in COLOURS:
                found[(cells[1], int(cells[0]))] = (float(cells[2]), float(cells[15]))
    return found


def panel(out, data, column, title, unit, offset):
    lengths = sorted({length for _, length in data})
    values = [value[column] for value in data.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    x0, x1 = math.log2(lengths[0]), math.log2(lengths[-1])
    x = lambda length: offset + LEFT + (math.log2(length) - x0) / (x1 - x0) * WIDTH
    y = lambda value: TOP + HEIGHT - (math.log10(value) - low) / (high - low) * HEIGHT
    out.append(f'<text x="{offset + LEFT}" y="{TOP - 10}" font-weight="bold">{title}</text>')
    for power in range(low, high + 1):
        at = y(10.0**power)
        out.append(f'<path d="M{offset + LEFT} {at:.1f}h{WIDTH}" stroke="#ddd"/>')
        out.append(f'<text x="{offset + LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10**power:g} {unit}</text>')
    for length in lengths:
        name = '1M' if length >= 1000000 else f'{round(length / 1024)}k'
        out.append(f'<text x="{x(length):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{name}</text>')
    for method, colour in COLOURS.items():
        points = [(length, data[(method, length)][column]) for length in lengths if (method, length) in data]
        if not points:
            continue
        line = ' '.join(f'{x(length):.1f},{y(value):.1f}' for length, value in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for length, value in points:
            out.append(f'<circle cx="{x(length):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}">'
                       f'<title>{NAMES[method]}, {length} tokens: {value:g} {unit}</title></circle>')


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    data = rows(sys.argv[1:])
    if not data:
        sys.exit('plot.py: no rows of device_bench in these files')
    used = [method for method in COLOURS if any(one == method for one, _ in data)]
    total = 2 * (WIDTH + LEFT) + 40
    bottom = TOP + HEIGHT + 44
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {bottom + 18 * len(used)}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    panel(out, data, 0, 'prompt and answer', 's', 0)
    panel(out, data, 1, 'memory taken beside the weights', 'GiB', WIDTH + LEFT + 24)
    for i, method in enumerate(used):
        out.append(f'<path d="M{LEFT} {bottom + 18 * i}h24" stroke="{COLOURS[method]}" stroke-width="2"/>')
        out.append(f'<text x="{LEFT + 32}" y="{bottom + 18 * i + 4}">{NAMES[method]}</text>')
    print('\n'.join(out + ['</svg>']))


if __name__ == '__main__':
    main()
