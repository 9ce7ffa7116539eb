"""Predictions by job id: the right phase, model and jobs, with the features that a training would see."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.assess.assessment import Assessment, Verdict
from forewarn.assess.wording import passed, summary
from forewarn.config import Config
from forewarn.errors import RefusedError
from forewarn.features.slurm_field_differences import reading_of, with_slurm_treatments
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.abstention import Abstention, EvidenceLevel
from forewarn.learn.fitting.evidence_levels import EVIDENCE_LEVELS
from forewarn.learn.registry.registry import Registry
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector
from forewarn.operate.predict import LiveJobSelection, assess_live
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store
from tests.learn.bundles import FACTS, tiny_bundle
from tests.operate.fake_scheduler import FakeScheduler, Row, job
from tests.sources.fake_slurmrestd import NOW, FakeTime

pytestmark = pytest.mark.slow

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
    return FakeScheduler(FakeTime(), ended=ended, live=live, cluster="alps", piece=100)


@pytest.fixture
def store(registry_home: Path, slurm: FakeScheduler) -> Iterator[Store]:
    with open_store(Config(home=registry_home)) as opened:
        list(Collector(opened, slurm, since=NOW - 86400, clock=slurm.time.clock).once())
        yield opened


@pytest.fixture
def train(registry_home: Path, tmp_path: Path) -> Train:
    """Let a tiny model serve."""

    def trained(phase: str = "submit", feature_set: str = "generic", **changed: Any) -> None:
        bundle = tiny_bundle()
        reading = reading_of(with_slurm_treatments(ClusterFacts()))  # as the collector sets it
        facts = dataclasses.replace(bundle.facts, phase=phase, feature_set=feature_set, reading=reading)
        assembly = dataclasses.replace(bundle.assembly, phase=phase)
        folder = tmp_path / f"{phase}-{feature_set}"
        dataclasses.replace(bundle, facts=facts, assembly=assembly, **changed).save(folder)
        assert Registry(registry_home).record(folder)

    return trained


def ask(store: Store, slurm: FakeScheduler, home: Path, *ids: str, **which: Any) -> list[Assessment]:
    now = int(slurm.time.now)
    return assess_live(store, slurm, Serving(home / "models"), LiveJobSelection(job_ids=ids, **which), at=now)


def test_at_the_phase_of_each_job(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train()
    train("start")
    waits, runs, ended = ask(store, slurm, registry_home, "500", "502", "504")
    for assessment in (waits, runs):
        # What waits is asked about as if it started now: all that was learnt since its submit counts.
        assert (assessment.phase, assessment.route.model, assessment.route.version) == (
            "start",
            "alps.start.generic",
            1,
        )
        assert assessment.failure
        assert assessment.failure.warns == (assessment.failure.probability >= assessment.failure.threshold)
        assert assessment.failure.rests_on == 500
    assert (ended.failure, ended.verdict) == (None, Verdict.CANNOT_SAY)
    assert "forewarn explain" in summary(ended)


def test_the_features_are_those_of_a_training(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    """A job that was submitted this moment, after all others, is judged as a training would see it."""
    train()
    slurm.time.now += 10
    slurm.live.append(alps(600, NOW + 10, user="bob", cpus_asked=4))
    (assessment,) = ask(store, slurm, registry_home, "600")
    slurm.live = []
    slurm.ended.append(alps(600, NOW + 10, user="bob", cpus_asked=4, start=NOW + 15, end=NOW + 60))
    slurm.time.now += 120
    list(Collector(store, slurm, clock=slurm.time.clock).once())
    table = read_table(store, "alps", "submit", POPULATIONS[FACTS["population"]])
    row = np.flatnonzero(table.about["job_id"].to_numpy() == "600")
    bundle = tiny_bundle()
    assert assessment.failure
    then = bundle.probability(bundle.assembly.matrix(table, row))[0]
    assert assessment.failure.probability == pytest.approx(then, abs=1e-9)


def test_what_became_known_since_its_submit_counts(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train("start")
    (before,) = ask(store, slurm, registry_home, "501")
    slurm.live = [row for row in slurm.live if row["job_id"] == "501"]
    failed = {"outcome": "failed", "state": "FAILED", "user": "bob", "cpus_asked": 4}
    slurm.ended += [alps(700 + n, NOW - 80, start=NOW - 70, end=NOW + 10 + n) | failed for n in range(5)]
    slurm.time.now += 60
    list(Collector(store, slurm, clock=slurm.time.clock).once())
    (after,) = ask(store, slurm, registry_home, "501")
    assert before.failure
    assert after.failure
    assert after.failure.probability > before.failure.probability
    kept = store.assessments(cluster="alps")
    assert kept["job_id"].to_list() == ["501", "501"]
    assert kept["probability"].to_list() == [before.failure.probability, after.failure.probability]
    for body, whole in zip(kept["body"], (before, after), strict=True):
        assert json.loads(body) == json.loads(json.dumps(whole.to_json())), "all that was said"


def test_a_running_job_without_a_model_for_start(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train(feature_set="restricted")
    (assessment,) = ask(store, slurm, registry_home, "502")
    assert (assessment.phase, assessment.route.model) == ("submit", "alps.submit.restricted")
    assert [note.code for note in assessment.notes] == ["no_model_for_start"]


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
    assert [assessment.job_id for assessment in ask(store, slurm, registry_home, **which)] == ids


def nobody_below(rung: int) -> Abstention:
    return Abstention(
        tuple(EvidenceLevel(n >= rung, 0, None, None, None, None) for n in range(len(EVIDENCE_LEVELS)))
    )


def test_too_little_evidence(store: Store, slurm: FakeScheduler, registry_home: Path, train: Train) -> None:
    train(abstention=nobody_below(1))
    known, stranger = ask(store, slurm, registry_home, "500", "503_[1-4]")
    assert known.failure
    assert (stranger.failure, stranger.verdict, stranger.route.model) == (None, Verdict.CANNOT_SAY, None)
    (kept,) = store.assessments(job_id="503_1").to_dicts()
    assert (kept["probability"], kept["model"], kept["verdict"]) == (None, "none", stranger.verdict)
    why = passed(stranger.route.passed[0])
    assert len(stranger.route.passed) == 2
    assert why.startswith("generic: not enough evidence: no earlier job of this user has ended")
    assert summary(stranger) == why.removeprefix("generic: ")


def test_a_stranger_is_passed_on_to_the_model_that_needs_no_history(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train(abstention=nobody_below(1))
    train(feature_set="restricted")
    known, stranger = ask(store, slurm, registry_home, "500", "503_[1-4]")
    assert (known.route.feature_set, known.route.passed) == ("generic", ())
    assert (stranger.job_id, stranger.route.feature_set) == ("503_[1-4]", "restricted")
    assert "no earlier job of this user" in passed(stranger.route.passed[0])
    assert stranger.failure


def test_without_a_model_the_online_regression_predicts(
    store: Store, slurm: FakeScheduler, registry_home: Path
) -> None:
    bad, good, stranger = ask(store, slurm, registry_home, "500", "501", "503_[1-4]")
    assert bad.failure
    assert good.failure
    assert bad.route.model == good.route.model == "online"
    assert "`forewarn train` trains one" in passed(bad.route.passed[0])
    assert bad.failure.probability > 0.7, "each of ann's jobs has failed"
    assert good.failure.probability < 0.3, "none of bob's has"
    assert bad.failure.base_rate == pytest.approx(0.5, abs=0.05)
    assert (stranger.failure, stranger.verdict) == (None, Verdict.CANNOT_SAY)
    assert "of this user have ended" in passed(stranger.route.passed[-1])


def test_an_array_is_kept_by_the_task_that_speaks_for_it(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train()
    (assessment,) = ask(store, slurm, registry_home, "503_[1-4]")
    assert assessment.job_id == "503_[1-4]"
    assert store.assessments(cluster="alps")["job_id"].to_list() == ["503_1"], "as its end will be told"


def test_a_job_that_was_never_collected(
    store: Store, slurm: FakeScheduler, registry_home: Path, train: Train
) -> None:
    train()
    slurm.live.append(alps(600, NOW, cpus_asked=4))
    (assessment,) = ask(store, slurm, registry_home, "600")
    assert assessment.failure
    assert store.observations("job", {"job_id": "600"}).height == 1


def test_no_such_job(store: Store, slurm: FakeScheduler, registry_home: Path) -> None:
    with pytest.raises(RefusedError, match="job 999: neither"):
        ask(store, slurm, registry_home, "500", "999")
