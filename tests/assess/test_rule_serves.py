"""Where a simple rule serves in a model's place, an assessment says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from forewarn.assess.champions import Champions
from forewarn.assess.routing import speak
from forewarn.assess.verdict import judged
from forewarn.learn.bundle import Bundle
from forewarn.learn.ensemble import fit_ensemble
from forewarn.learn.fallback import rule_recipes
from forewarn.learn.table import Table
from tests.assess.test_verdict import PLAIN, failing

LABEL = "rule: last outcome of this user with this request"


def test_a_rule_speaks_as_any_model_and_is_named(table: Table, bundle: Bundle, tmp_path: Path) -> None:
    rows = np.flatnonzero(table.labelled)
    sample = bundle.assembly.sample(table, rows[:2500])
    ensemble = fit_ensemble(rule_recipes("last_user_request"), sample, seed=0, threads=1)
    replace(bundle, ensemble=ensemble).save(tmp_path / "rule")
    champions = Champions(bundle.facts.cluster, None, (tmp_path / "rule",))
    said = speak(table.rows(rows[-50:]), champions, ended=5000)
    assert {one.route.rule for one in said} == {LABEL}
    last = table.column("user_request_last")[rows[-50:]]
    risks = np.array([one.failure.probability for one in said if one.failure])
    assert len(risks) == 50
    assert risks[last == 1].min() > risks[last == 0].max()


def test_the_summary_names_the_rule() -> None:
    by_rule = judged(replace(PLAIN, failure=failing(0.3), route=replace(PLAIN.route, rule=LABEL)))
    assert f"by a simple {LABEL}" in by_rule.summary
