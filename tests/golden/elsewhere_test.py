#!/usr/bin/env python3
"""EI_GOLDEN_DIR: ei_golden_test on another folder of the same layout, and that it fails where the folder is wrong.

usage: tests/golden/elsewhere_test.py PROGRAM DATA
One folder has the cases in another order, under other names, in one file with other offsets; one has other seeds, lengths and
budgets (other_seeds.py). A folder without the cases of a method, with one block of a list changed, or with no manifest must fail.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import other_seeds

# What each of the wrong folders breaks: which tests have to notice, each by itself.
NOTICED = {'critiprefill': ('*CritiPrefill*cpu',), 'snapkv': ('*SnapKv*',), 'adakv': ('*AdaKv*', '*SharesAmong*')}
QUICK = ':'.join(tests for own in NOTICED.values() for tests in own)
# Of a case what its generator, then its parameters have instead.
OTHERS = {
    'B1': ({'seed': '20261118', 'n_tokens': 900}, {'budget': 200}),
    'B2': ({'seed': '4711', 'n_tokens': 1100}, {'budget': 416}),
    'D1': ({'seed': '99', 'n_tokens': 500}, {'budget': 150}),
    'D2': ({'seed': '98765432109', 'n_tokens': 431}, {'budget': 120, 'W': 24}),
    'E1': ({'seed': '31', 'n_tokens': 420}, {'budget': 110}),
    'E2': ({'seed': '32', 'n_tokens': 380}, {'budget': 97}),
    'E3': ({'seed': '33', 'n_tokens': 470}, {'budget': 130}),
    'E4': ({'seed': '34'}, {}),
}


def arrays(node):
    """Every stored array of a part of the manifest."""
    if isinstance(node, dict):
        if 'file' in node and 'offset' in node:
            yield node
        else:
            for value in node.values():
                yield from arrays(value)
    elif isinstance(node, list):
        for value in node:
            yield from arrays(value)


def size_of(array):
    size = 4
    for extent in array['shape']:
        size *= extent
    return size


def moved(data, folder, wanted):
    """The manifest of `data` with the cases that are wanted, their arrays in one file of `folder` behind a stray byte."""
    manifest = json.loads((data / 'manifest.json').read_text())
    manifest['cases'] = [case for case in reversed(manifest['cases']) if wanted(case)]
    packed = bytearray(b'\0')
    for number, case in enumerate(manifest['cases']):
        case['name'] = 'other%d' % number
        for array in arrays(case['layers']):
            stored = (data / array['file']).read_bytes()[array['offset']:array['offset'] + size_of(array)]
            array['file'], array['offset'] = 'all.bin', len(packed)
            packed += stored
    return manifest, packed


def write(folder, manifest, packed):
    folder.mkdir()
    (folder / 'manifest.json').write_text(json.dumps(manifest))
    (folder / 'all.bin').write_bytes(packed)


def run(program, folder, tests):
    environment = dict(os.environ, EI_GOLDEN_DIR=str(folder), GTEST_FILTER=tests)
    done = subprocess.run([program, '--gtest_brief=1'], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    failures = []

    def expect(passes, what, folder, tests=QUICK):
        code, output = run(program, folder, tests)
        if (code == 0) != passes:
            failures.append(what)
            print('%s: exit code %d\n%s' % (what, code, output[-3000:]))

    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        write(place / 'moved', *moved(data, place, lambda case: True))
        expect(True, 'the same cases elsewhere', place / 'moved', QUICK + ':Generator*:Golden.*')
        write(place / 'seeds', *other_seeds.cases(json.loads((data / 'manifest.json').read_text()), OTHERS))
        expect(True, 'other seeds', place / 'seeds', QUICK + ':*CritiPrefill*:Golden.Inputs*')
        for method, noticing in NOTICED.items():
            folder = place / ('without_' + method)
            write(folder, *moved(data, place, lambda case: case['method'] != method))
            for tests in noticing:
                expect(False, 'no case of ' + method, folder, tests)
            folder = place / ('other_' + method)
            manifest, packed = moved(data, place, lambda case: True)
            for case in manifest['cases']:
                if case['method'] != method:
                    continue
                for array in arrays(case['layers'][0]['fields']):
                    if array['dtype'] == 'i32' and size_of(array) > 400:
                        packed[array['offset'] + size_of(array) - 4] ^= 1  # the last index of a list
            write(folder, manifest, packed)
            for tests in noticing:
                expect(False, 'another list of ' + method, folder, tests)
        expect(False, 'no folder', place / 'nowhere')
    print('golden elsewhere: %d problems' % len(failures))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
