"""Where a simple rule serves in a model's place, an assessment says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forewarn.assess.champions import Champions
from forewarn.assess.risk_parts import cause_probability, with_other_excess
from forewarn.assess.routing import route_jobs
from forewarn.assess.verdict import with_verdict
from forewarn.assess.wording import summary
from forewarn.job.outcomes import Outcome
from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.ensemble import fit_ensemble
from forewarn.learn.fitting.fallback import rule_recipes
from forewarn.learn.registry.bundle import Bundle
from tests.assess.test_advice import failure
from tests.assess.test_verdict import PLAIN, failing

RULE, LABEL = "last_user_request", "rule: last outcome of this user with this request"


def test_a_rule_speaks_as_any_model_and_is_named(table: JobTable, bundle: Bundle, tmp_path: Path) -> None:
    rows = np.flatnonzero(table.labelled)
    sample = bundle.assembly.sample(table, rows[:2500])
    ensemble = fit_ensemble(rule_recipes("last_user_request"), sample, seed=0, threads=1)
    replace(bundle, ensemble=ensemble).save(tmp_path / "rule")
    champions = Champions(bundle.facts.cluster, None, (tmp_path / "rule",))
    answers = route_jobs(table.rows(rows[-50:]), champions, ended=5000)
    assert {answer.route.rule for answer in answers} == {RULE}
    last = table.column("user_request_last")[rows[-50:]]
    risks = np.array([answer.failure.probability for answer in answers if answer.failure])
    assert len(risks) == 50
    assert risks[last == 1].min() > risks[last == 0].max()


def test_the_summary_names_the_rule() -> None:
    by_rule = with_verdict(replace(PLAIN, failure=failing(0.3), route=replace(PLAIN.route, rule=RULE)))
    assert f"by a simple {LABEL}" in summary(by_rule)


def test_under_a_rule_a_change_is_worth_what_the_needs_say() -> None:
    """A rule answers by history: it would call any new request safe or not whatever that asks for."""
    whole = failure(memory=0.3, time=0.1, other=0.2)
    over = {Outcome.OUT_OF_MEMORY: 0.8, Outcome.TIMEOUT: 0.1}
    more_memory = with_other_excess(whole, over, over | {Outcome.OUT_OF_MEMORY: 0.08})
    assert more_memory.probability == pytest.approx(0.2 + 0.1 + 0.03)
    assert cause_probability(more_memory, Outcome.OUT_OF_MEMORY) == pytest.approx(0.03)
    assert with_other_excess(whole, over, {}).causes == whole.causes
    less_time = with_other_excess(whole, over, over | {Outcome.TIMEOUT: 0.9})
    assert less_time.probability == 1.0
