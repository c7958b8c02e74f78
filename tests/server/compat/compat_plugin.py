"""What llama-server's conftest.py does for its tests, without starting every model it knows; and the list of tests
that cannot apply (not_applicable.txt)."""
import pathlib

import pytest

LIST = pathlib.Path(__file__).with_name("not_applicable.txt")


def left_out():
    """{beginning of a test's name: reason}"""
    entries = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, reason = line.split(" | ", 1)
            entries[name.strip()] = reason.strip()
    return entries


def pytest_collection_modifyitems(config, items):
    entries = left_out()
    kept, dropped = [], []
    for item in items:
        name = item.nodeid.split("unit/")[-1]
        slow = item.get_closest_marker("slow") is not None
        listed = any((name + "$").startswith(entry) for entry in entries)
        (dropped if slow or listed else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


@pytest.fixture(autouse=True)
def stop_servers():
    yield
    import utils  # of the tests, known only once they are collected
    for server in set(utils.server_instances):
        server.stop()


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: needs a model that is fetched")
