"""Abstention: learnt where the evidence does not suffice, stated with its reason, and rare."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from forewarn.evidence import Statement
from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.metrics import ScoredPredictions
from forewarn.learn.families.base import probabilities
from forewarn.learn.fitting.abstention import REQUEST, Abstention, EvidenceLevel
from forewarn.learn.fitting.evidence_levels import WITHOUT_HISTORY, AbstentionCode

pytestmark = pytest.mark.slow

ENDED = ("user_ended", "user_request_ended", "user_name_ended")
# One job for each rung: ended jobs of its user, of those with its request, with its name.
LEVELS = np.array([[0, 0, 0], [2, 2, 2], [9, 0, 9], [10, 0, 0], [500, 4, 0], [10, 0, 5]], float)


def columns(ended: np.ndarray, **more: np.ndarray) -> dict[str, np.ndarray]:
    return {**dict(zip(ENDED, ended.T, strict=True)), "cpus": np.ones(len(ended)), **more}


def synthetic_table(
    carries: Callable[[np.ndarray], np.ndarray], jobs: int = 600
) -> tuple[JobTable, np.ndarray]:
    """As many jobs on each rung; the model knows the truth where it carries and else guesses."""
    random = np.random.default_rng(0)
    level = np.tile(np.arange(6), jobs)
    truth = random.normal(-1, 1.5, len(level))
    fails = (random.random(len(level)) < probabilities(truth)).astype(float)
    margins = np.where(carries(level), truth, random.permutation(truth))
    given = columns(LEVELS[level])
    values = np.array(list(given.values()), np.float32).T
    submit = np.arange(len(level)) * 600
    about = pl.DataFrame({"user": [f"u{place % 40}" for place in range(len(level))], "submit": submit})
    table = JobTable("made", "submit", "papers", tuple(given), values, fails, submit, submit, about)
    return table, probabilities(margins)


def test_the_level_rises_with_the_users_jobs_and_then_with_equal_ones() -> None:
    table, p = synthetic_table(lambda level: level >= 0)
    for place in range(6):
        only = Abstention(
            tuple(EvidenceLevel(other != place, 0, None, None, None, None) for other in range(6))
        )
        assert only.abstains(columns(LEVELS)).tolist() == [other == place for other in range(6)]
    assert Abstention.fit(table, np.arange(len(p)), p).abstains(columns(LEVELS)).tolist() == [False] * 6


@pytest.mark.parametrize("weak", [{0}, {0, 1}, {0, 3}])
def test_it_finds_the_rungs_on_which_the_model_guesses(weak: set[int]) -> None:
    table, p = synthetic_table(lambda level: ~np.isin(level, list(weak)))
    found = Abstention.fit(table, np.arange(len(p)), p)
    assert {place for place, level in enumerate(found.levels) if not level.carries} == weak
    assert [bool(reason) for reason in found.why(columns(LEVELS))] == [place in weak for place in range(6)]


def test_a_new_users_jobs_are_not_judged_where_there_were_none_to_learn_from() -> None:
    table, p = synthetic_table(lambda level: level >= 0)
    experienced = np.flatnonzero(np.tile(np.arange(6), 600) >= 3)
    found = Abstention.fit(table, experienced, p[experienced])
    assert found.abstains(columns(LEVELS)).tolist() == [True, True, False, False, False, False]
    assert found.why(columns(LEVELS))[0] == Statement(AbstentionCode.NO_JOB), (
        "no jobs to evaluate the model on"
    )


def test_a_job_unlike_all_before_is_not_judged_where_the_model_met_too_few_such() -> None:
    """A young history repeats itself: its block had no new request, and the model predicted 62% for each."""
    table, p = synthetic_table(lambda level: level >= 0)
    repeated = np.flatnonzero(np.tile(np.arange(6), 600) >= 4)
    found = Abstention.fit(table, repeated, p[repeated])
    new, young, known = [50.0, 0.0, 0.0], [5.0, 0.0, 0.0], [5.0, 0.0, 5.0]
    reasons = found.why(columns(np.array([new, young, known])))
    assert [bool(reason) for reason in reasons] == [True, True, False]
    assert reasons[0] == reasons[1]
    assert reasons[0] == Statement(AbstentionCode.NONE_ALIKE)


def test_the_reason_has_the_jobs_and_their_failure_rate() -> None:
    table, p = synthetic_table(lambda level: level > 0)
    found = Abstention.fit(table, np.arange(len(p)), p)
    reason = found.why(columns(LEVELS))[0]
    assert reason
    assert reason.code is AbstentionCode.NO_JOB
    assert reason.values == {"jobs": 600, "failure_rate": found.levels[0].failed}
    assert found.why(columns(LEVELS))[1:] == [None] * 5


def test_a_job_of_which_nothing_is_known_is_never_judged() -> None:
    table, p = synthetic_table(lambda level: level >= 0)
    found = Abstention.fit(table, np.arange(len(p)), p)
    nothing = dict.fromkeys((*ENDED, *REQUEST, "hour"), np.full(2, np.nan))
    nothing["cpus"] = np.array([np.nan, 4.0])
    assert found.abstains(nothing).tolist() == [True, False]
    assert found.why(nothing)[0] == Statement(AbstentionCode.NOTHING_KNOWN)
    assert found.abstains({"hour": np.array([3.0])}).tolist() == [True]


def test_it_survives_the_bundle() -> None:
    table, p = synthetic_table(lambda level: level > 1, jobs=100)
    found = Abstention.fit(table, np.arange(len(p)), p)
    again = Abstention.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    assert again == found
    newcomers = Abstention.fit(table, np.arange(len(p)), p, history=False)
    assert Abstention.from_json(json.loads(json.dumps(newcomers.to_json()))) == newcomers
    assert Abstention.fit(table, np.arange(len(p)), p) == found


def test_on_a_simulated_cluster_few_jobs_are_left_unjudged(table: JobTable) -> None:
    parts = split(table)
    p = probabilities(table.column("online").astype(float))
    found = Abstention.fit(table, parts.calibrate, p[parts.calibrate])
    given = {name: table.column(name)[parts.test] for name in table.names}
    silent = found.abstains(given)
    fails, p = table.fails[parts.test], p[parts.test]
    assert silent.mean() < 0.5
    assert ScoredPredictions(fails[~silent], p[~silent]).roc_auc() > 0.6


def test_a_model_without_history_speaks_of_newcomers_too() -> None:
    table, p = synthetic_table(lambda level: level >= 0)
    found = Abstention.fit(table, np.arange(len(p)), p, history=False)
    assert [level["of"] for level in found.to_json()["rungs"]] == list(WITHOUT_HISTORY)
    assert found.abstains(columns(LEVELS)).tolist() == [False] * 6
    assert found.abstains({"cpus": np.array([4.0, np.nan])}).tolist() == [
        False,
        True,
    ]  # its own columns alone
    table, p = synthetic_table(lambda level: level < 0)  # one that guesses
    assert Abstention.fit(table, np.arange(len(p)), p, history=False).abstains(columns(LEVELS)).all()
