"""Live jobs are assessed again when another model or threshold answers for them than before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.learn.registry.operator_thresholds import OperatorThresholds, PartitionThresholds
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.operate import live_assessment
from forewarn.operate.engine import Engine
from forewarn.operate.live_assessment import LiveAssessment
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store
from tests.operate.test_engine import NOW, job, outcome_of, promote, write_jobs

pytestmark = pytest.mark.slow
MODEL = "alps.submit.generic"
AT = NOW + 60 * 1000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """A cluster whose history is one job too short for the online regression."""
    with open_store(Config(home=home)) as opened:
        with opened.writing() as writer:
            writer.describe_cluster("alps", ClusterFacts())
        write_jobs(opened, *(job(n, outcome=outcome_of(n)) for n in range(199)))
        yield opened


def process(store: Store, home: Path) -> LiveAssessment:
    """Assess live jobs as a new process does."""
    return LiveAssessment(store, Engine(store, "alps", Serving(home / "models"), saves=True))


def assessed(live: LiveAssessment, at: int) -> dict[str | None, tuple[str | None, int | None]]:
    """Return which jobs a round assesses, in their order, by which model and version."""
    done = live.assess_round(at)
    assert not done.troubles
    return {one.job_id: (one.route.model, one.route.version) for one in done.assessments}


def test_jobs_are_assessed_again_when_another_model_or_threshold_answers(store: Store, home: Path) -> None:
    running = job(301, outcome=None, state="RUNNING", start=NOW + 60 * 301)
    write_jobs(store, job(200), job(300, outcome=None), running)
    live = process(store, home)
    assert assessed(live, AT) == {"300": ("online", None), "301": ("online", None)}
    assert assessed(live, AT + 10) == {}
    for n, version in enumerate((1, 2, 1)):  # promoted, promoted, rolled back
        promote(home, version)
        assert assessed(live, AT + 20 + n) == {"300": (MODEL, version), "301": (MODEL, version)}
    assert assessed(live, AT + 30) == {}
    own: dict[ModelName, PartitionThresholds] = {ModelName("alps", "submit", "generic"): {None: 0.99}}
    OperatorThresholds(own).write(home / "models")
    assert assessed(live, AT + 40).keys() == {"300", "301"}
    assert set(store.assessments(since=AT + 40)["threshold"]) == {0.99}
    OperatorThresholds(own | {ModelName("other", "submit", "generic"): {None: 0.5}}).write(home / "models")
    assert assessed(live, AT + 50) == {}, "a threshold of another cluster"
    assert assessed(process(store, home), AT + 60) == {}, "a new process knows what was assessed"
    promote(home, 2)
    assert assessed(process(store, home), AT + 70).keys() == {"300", "301"}, "promoted while none ran"


def test_jobs_are_assessed_again_when_the_history_is_long_enough(store: Store, home: Path) -> None:
    write_jobs(store, job(300, outcome=None))
    live = process(store, home)
    assert assessed(live, AT) == {"300": (None, None)}
    write_jobs(store, job(200, user="zoe"))
    assert assessed(live, AT + 10) == {"300": ("online", None)}


def test_the_most_hours_come_first_over_several_rounds_and_a_restart(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = [job(300, outcome=None, job_id=f"300_{task}", nodes_asked=2) for task in range(4)]
    sizes = {301: 1, 302: 5, 303: 3}
    jobs = [job(n, user="ann", outcome=None, nodes_asked=nodes) for n, nodes in sizes.items()]
    started = job(300, outcome=None, job_id="300_9", nodes_asked=4, state="RUNNING", start=NOW + 60 * 300)
    write_jobs(store, job(200), *array, started, *jobs)
    live = process(store, home)
    assert assessed(live, AT).keys() == {"300_0", "300_9", "301", "302", "303"}
    monkeypatch.setattr(live_assessment, "MOST", 2)
    promote(home, 1)
    stored = store.assessments(cluster="alps")
    hours = dict(zip(stored["job_id"], stored["hours_at_risk"], strict=True))
    hours["300_0"] *= 4
    expected = sorted(hours, key=lambda one: -hours[one])
    first = assessed(live, AT + 10)
    live = process(store, home)
    rounds = [first, *(assessed(live, AT + at) for at in (20, 30, 40))]
    assert [set(one) for one in rounds] == [set(expected[:2]), set(expected[2:4]), set(expected[4:]), set()]


def test_new_jobs_beyond_what_a_round_assesses_wait_for_the_next(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = process(store, home)
    assessed(live, AT)
    monkeypatch.setattr(live_assessment, "MOST", 2)
    write_jobs(store, *(job(300 + n, outcome=None) for n in range(5)))
    assert [len(assessed(live, AT + at)) for at in (10, 20, 30, 40)] == [2, 2, 1, 0]
