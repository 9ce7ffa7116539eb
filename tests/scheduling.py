"""Which worker of pytest-xdist runs which tests, and in which order: loaded by `tests/conftest.py`.

`--dist loadgroup` as it comes hands out single tests by turns. So every worker sets up the fixtures of every
module, and the controller, which counts what is pending after each test, takes a core from the workers. Here
a module goes to one worker as a whole. The tests that wait long come first and those of milliseconds last, so
that the workers end together.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.nodeid import coerce_node_id
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

# A model of the simulated cluster needs all kernels, which take most of a minute to compile on a new machine:
# one worker does so while the other runs tests.
COMPILED_GROUP, COMPILED_FIXTURE = "compiled", "cluster"


class ModuleScheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """A scheduler that gives a module, or a group of tests, to one worker, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModuleScheduling | None:
    """Replace the scheduler of `--dist loadgroup`."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # by number of tests, which says nothing about their time
    return ModuleScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, and let the scheduler see their groups.

    xdist 3.8 writes groups where pytest 9.2 does not read them any more.
    """
    if not config.getoption("loadgroup", False):
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: _rank(item, item.path in slow))
    for item in items:
        groups = _groups(item)
        if groups and not item.nodeid.endswith("@" + "_".join(groups)):
            item._id = coerce_node_id(f"{item.nodeid}@{'_'.join(groups)}")


def _groups(item: pytest.Item) -> Sequence[str]:
    marked = sorted({mark.args[0] for mark in item.iter_markers("xdist_group")})
    return marked or [COMPILED_GROUP] * (COMPILED_FIXTURE in getattr(item, "fixturenames", ()))


def _rank(item: pytest.Item, slow_module: bool) -> int:
    if item.get_closest_marker("lab") or item.get_closest_marker("release"):
        return 0
    return 1 if slow_module else 2 if COMPILED_GROUP in _groups(item) else 3
