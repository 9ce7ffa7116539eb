"""Predictions by job id: the right phase, model and jobs, with the features that a training would see."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.errors import RefusedError, RegistryError
from forewarn.learn.abstention import RUNGS, Abstention, Rung
from forewarn.learn.population import POPULATIONS
from forewarn.learn.registry import Registry
from forewarn.learn.table import read_table
from forewarn.operate.collect import Collector
from forewarn.operate.predict import Prediction, Wanted, predict
from forewarn.store.base import Store
from forewarn.store.embedded import open_store
from tests.learn.bundles import FACTS, tiny_bundle
from tests.operate.fake_scheduler import FakeScheduler, Row, job
from tests.sources.fake_slurmrestd import NOW, FakeTime

Train = Callable[..., None]


def alps(number: int | str, submit: int, **fields: Any) -> Row:
    return job(number, submit, **fields) | {"cluster": "alps"}


@pytest.fixture
def slurm() -> FakeScheduler:
    ended = [
        alps(n, NOW - 7200 + 10 * n, end=NOW - 7000 + 10 * n)
        | {"user": "ann" if n % 2 else "bob", "outcome": "failed" if n % 2 else "completed", "cpus_asked": 4}
        for n in range(1, 300)
    ]
    live = [
        alps(500, NOW - 60, cpus_asked=4),
        alps(501, NOW - 90, user="bob", cpus_asked=4),
        alps(502, NOW - 95, state="RUNNING", start=NOW - 30, cpus_asked=4),
        alps("503_[1-4]", NOW - 50, array_job_id=503, array_tasks="1-4", user="cy", cpus_asked=4),
        alps(504, NOW - 95, state="COMPLETED", outcome="completed", start=NOW - 90) | {"end": NOW - 80},
    ]
    return FakeScheduler(FakeTime(), ended=ended, live=live, cluster="alps")


@pytest.fixture
def store(registry_home: Path, slurm: FakeScheduler) -> Iterator[Store]:
    with open_store(registry_home) as opened:
        list(Collector(opened, slurm, since=NOW - 86400, clock=slurm.time.clock).once())
        yield opened


@pytest.fixture
def train(registry_home: Path, tmp_path: Path) -> Train:
    """Let a tiny model serve."""

    def trained(phase: str = "submit", feature_set: str = "generic", **changed: Any) -> None:
        made = tiny_bundle()
        facts = dataclasses.replace(made.facts, phase=phase, feature_set=feature_set)
        assembly = dataclasses.replace(made.assembly, phase=phase)
        folder = tmp_path / f"{phase}-{feature_set}"
        dataclasses.replace(made, facts=facts, assembly=assembly, **changed).save(folder)
        assert Registry(registry_home).record(folder)

    return trained


def ask(store: Store, slurm: FakeScheduler, home: Path, *ids: str, **which: Any) -> list[Prediction]:
    return predict(store, slurm, Registry(home), Wanted(job_ids=ids, **which))


def test_at_the_phase_of_each_job(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train()
    train("start")
    waits, runs, ended = ask(store, slurm, registry_home, "500", "502", "504")
    assert (waits.phase, waits.model, waits.version) == ("submit", "alps.submit.generic", 1)
    assert (runs.phase, runs.model, runs.note) == ("start", "alps.start.generic", None)
    assert (ended.probability, ended.why_not) == (None, "it has ended")
    for said in (waits, runs):
        assert said.probability is not None
        assert said.threshold is not None
        assert said.warns == (said.probability >= said.threshold)
        assert said.learnt_from == 500


def test_the_features_are_those_of_a_training(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train()
    (said,) = ask(store, slurm, registry_home, "501")
    slurm.live = []
    slurm.ended.append(alps(501, NOW - 90, user="bob", cpus_asked=4, start=NOW + 5, end=NOW + 60))
    slurm.time.now += 120
    list(Collector(store, slurm, clock=slurm.time.clock).once())
    table = read_table(store, "alps", "submit", POPULATIONS[FACTS["population"]])
    row = np.flatnonzero(table.about["job_id"].to_numpy() == "501")
    bundle = tiny_bundle()
    assert said.probability == bundle.probability(bundle.assembly.matrix(table, row))[0]


def test_a_running_job_without_a_model_for_start(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train(feature_set="restricted")
    (said,) = ask(store, slurm, registry_home, "502")
    assert (said.phase, said.model) == ("submit", "alps.submit.restricted")
    assert said.note == "there is no model for start: it is the one for submit"


@pytest.mark.parametrize(
    ("which", "ids"),
    [
        ({"pending": True}, ["500", "501", "503_[1-4]"]),
        ({"running": True}, ["502"]),
        ({"user": "bob"}, ["501"]),
        ({"user": "ann"}, ["500", "502"]),
        ({"user": "ann", "running": True}, ["502"]),
        ({"user": "nobody"}, []),
    ],
)
def test_which_jobs(
    store: Store,
    slurm: FakeScheduler,
    registry_home: Path,
    train: Train,
    which: dict[str, Any],
    ids: list[str],
) -> None:
    train()
    assert [said.job_id for said in ask(store, slurm, registry_home, **which)] == ids


def test_too_little_evidence(store: Store, slurm: FakeScheduler, registry_home: Path, train: Train) -> None:
    train(abstention=Abstention(tuple(Rung(n > 0, 0, None, None, None, None) for n in range(len(RUNGS)))))
    known, stranger = ask(store, slurm, registry_home, "500", "503_[1-4]")
    assert known.why_not is None
    assert stranger.why_not is not None
    assert stranger.why_not.startswith("not enough evidence: no earlier job of this user has ended")
    assert not stranger.warns


def test_a_job_that_was_never_collected(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train()
    slurm.live.append(alps(600, NOW, cpus_asked=4))
    (said,) = ask(store, slurm, registry_home, "600")
    assert said.probability is not None
    assert store.observations("job", {"job_id": "600"}).height == 1


def test_no_model(store: Store, slurm: FakeScheduler, registry_home: Path) -> None:
    with pytest.raises(RegistryError, match="forewarn train"):
        ask(store, slurm, registry_home, "500")


def test_no_such_job(store: Store, slurm: FakeScheduler, registry_home: Path) -> None:
    with pytest.raises(RefusedError, match="job 999: neither"):
        ask(store, slurm, registry_home, "500", "999")
