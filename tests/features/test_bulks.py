"""Many equal jobs sent at once are few decisions: how much each of them counts in learning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.features import state_store as saved
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.online import OnlineFeatures
from forewarn.features.snapshot import bring_up_to_date, is_current
from forewarn.job.outcomes import POLICIES
from forewarn.job.phase import PHASES
from forewarn.job.record import Job
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.store.opening import open_store
from tests.features.histories import history

PLACE = {feature.name: place for place, feature in enumerate(L.FEATURES)}
ASKED = Job(cluster="c", job_id="0", submit=1000, user="ann", cpus_asked=4, time_limit=600)


def bulk(online: OnlineFeatures, asked: Job, count: int) -> list[np.ndarray]:
    return [online.submit(replace(asked, job_id=f"{asked.job_id}{n}")) for n in range(count)]


def end(online: OnlineFeatures, asked: Job, count: int, outcome: str) -> None:
    for n in range(count):
        ended = replace(asked, job_id=f"{asked.job_id}{n}", start=1001, end=1100, outcome=outcome)
        online.ended(ended, 1100)


def test_a_job_counts_the_less_the_more_equal_ones_of_its_user_are_in_flight() -> None:
    online = OnlineFeatures("c", POLICIES["papers"])
    rows = bulk(online, ASKED, 100)
    weights = [row[PLACE["decision_weight"]] for row in rows]
    np.testing.assert_allclose(weights, 1 / np.sqrt(1 + np.arange(100)))
    other_request = online.submit(replace(ASKED, job_id="x", cpus_asked=8))
    other_user = online.submit(replace(ASKED, job_id="y", user="bob"))
    assert other_request[PLACE["decision_weight"]] == other_user[PLACE["decision_weight"]] == 1
    # At its start it is still what it was when it was submitted.
    started = online.start(replace(ASKED, job_id="03", start=1050))
    assert started[PLACE["decision_weight"]] == weights[3]


def test_where_the_user_is_not_known_equal_jobs_of_anyone_count() -> None:
    online = OnlineFeatures("c", POLICIES["papers"])
    rows = bulk(online, replace(ASKED, user=None), 4)
    assert rows[3][PLACE["decision_weight"]] == 0.5


def test_no_model_sees_how_much_a_job_counts() -> None:
    for phase in PHASES:
        for features in L.FEATURE_SETS:
            assert PLACE["decision_weight"] not in L.selected(phase, features)


def test_the_regression_counts_a_bulk_as_few_jobs() -> None:
    """A hundred equal failures weigh as 1 + 1/√2 + … = 18.6 jobs in the contexts that they share."""
    online = OnlineFeatures("c", POLICIES["papers"])
    bulk(online, ASKED, 100)
    slots = online.state.flight_slot[online.places[saved.job_key("00", 1000)]].copy()
    end(online, ASKED, 100, "failed")
    weights = 1 / np.sqrt(1 + np.arange(100))
    kept = L.D100 ** np.append(np.cumsum(weights[::-1])[::-1][1:], 0.0)  # by what came after each
    count = online.state.weight[slots[L.KEYS.index("user")], L.W_COUNT]
    assert count == pytest.approx((weights * kept).sum())
    assert count < 20


def test_one_bulk_does_not_outweigh_what_many_decisions_taught() -> None:
    """The same hundred failures, at once or one after another: the latter teach more about the others."""

    def bias(at_once: bool) -> float:
        online = OnlineFeatures("c", POLICIES["papers"])
        if at_once:
            bulk(online, ASKED, 100)
            end(online, ASKED, 100, "failed")
        else:
            for n in range(100):
                job = replace(ASKED, job_id=str(n), submit=1000 + 200 * n, start=1001 + 200 * n)
                online.submit(job)
                online.ended(replace(job, end=1100 + 200 * n, outcome="failed"), 1100 + 200 * n)
        return float(online.state.cluster[L.C_FAST_BIAS])

    assert 0 < bias(at_once=True) < bias(at_once=False)


def test_the_last_outcome_of_a_request_and_of_an_array_is_known_without_users() -> None:
    online = OnlineFeatures("c", POLICIES["papers"])
    task = replace(ASKED, user=None, array_job_id=7)
    bulk(online, task, 3)
    online.ended(replace(task, job_id="00", start=1001, end=1100, outcome="failed"), 1100)
    started = online.start(replace(task, job_id="01", start=1200))
    assert started[PLACE["array_last"]] == started[PLACE["request_last"]] == 1
    later = online.submit(replace(task, job_id="x", submit=1300, array_job_id=8))
    assert later[PLACE["request_last"]] == 1
    assert np.isnan(later[PLACE["array_last"]])
    assert np.isnan(later[PLACE["user_request_last"]])


def test_a_table_tells_how_much_each_job_counts(tmp_path: Path) -> None:
    store = open_store(Config(home=tmp_path / "home"))
    with store.writing() as writer:
        writer.observe("job", history(300).drop("known_at"))
    for phase in ("submit", "start"):
        table = read_table(store, "c", phase, POPULATIONS["papers"])
        assert table.weights.min() > 0
        assert table.weights.max() == 1
        half = table.rows(np.arange(len(table.fails)) % 2 == 0)
        np.testing.assert_array_equal(half.weights, table.weights[::2])


@pytest.mark.slow
def test_state_saved_by_an_older_kernel_is_rebuilt_from_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = POLICIES["wasted"]
    store = open_store(Config(home=tmp_path / "home"))
    with store.writing() as writer:
        writer.observe("job", history(300).drop("known_at"))
    with monkeypatch.context() as older:
        older.setattr(saved, "VERSION", 1)
        bring_up_to_date(store, "c", policy)
        assert is_current(store, "c", policy)
    assert not is_current(store, "c", policy)
    with pytest.raises(StoreError, match="rebuild it from history"):
        OnlineFeatures.load(store, "c", policy)
    bring_up_to_date(store, "c", policy)
    assert is_current(store, "c", policy)
    assert OnlineFeatures.load(store, "c", policy).at > 0
