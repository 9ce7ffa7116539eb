"""Reasons: every column has one kind of evidence, the weights add up, the words fit the values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from forewarn.assess.assessment import Reason
from forewarn.assess.codes import ReasonCode
from forewarn.assess.explanation import EVERYTHING_ELSE, reasons
from forewarn.assess.explanation.evidence import CROWD, evidence
from forewarn.assess.explanation.groups import EvidenceGroup, group_of, resolved
from forewarn.assess.wording import Reader, waterfall_svg, words
from forewarn.assess.wording import reason as in_words
from forewarn.features.kernel.layout import FEATURES
from forewarn.learn.data.encoders import CATEGORIES
from forewarn.learn.data.job_details import POSTHOC_COLUMNS
from forewarn.learn.data.table import JobTable
from forewarn.learn.registry.bundle import Bundle

COLUMNS = [
    *(feature.name for feature in FEATURES if not feature.aside),
    *POSTHOC_COLUMNS,
    *{field for fields in CATEGORIES.values() for field in fields},
    *("profile_0", "profile_12"),
]


def sentence(group: EvidenceGroup, features: Mapping[str, float]) -> str:
    return words(evidence(group, features))


def values_of(table: JobTable, row: int) -> dict[str, float]:
    return dict(zip(table.names, table.values[row].tolist(), strict=True))


def test_every_column_is_of_one_kind_of_evidence() -> None:
    for column in COLUMNS:
        assert isinstance(group_of(column), EvidenceGroup)
    with pytest.raises(KeyError, match="no kind of evidence"):
        group_of("something_new")


@pytest.mark.parametrize(
    ("column", "group"),
    [
        ("user_request_streak", EvidenceGroup.REQUEST),
        ("user_name_request_rate3", EvidenceGroup.REQUEST),
        ("backoff_name_15", EvidenceGroup.NAME),
        ("user_rate15", EvidenceGroup.USER),
        ("context_user_outcomes", EvidenceGroup.USER),
        ("user_name_request_in_flight", EvidenceGroup.IN_FLIGHT),
        ("user_name_limit_fail_ratio", EvidenceGroup.TIME_LIMIT),
        ("user_memory15", EvidenceGroup.MEMORY),
        ("nodes_given", EvidenceGroup.SIZE),
        ("node_seen", EvidenceGroup.NODES),
        ("partition", EvidenceGroup.PARTITION),
        ("partition_running_cpus", EvidenceGroup.QUEUE),
        ("partition_rate3", EvidenceGroup.PARTITION),
        ("script_last", EvidenceGroup.OTHERS),
        ("name_rate3", EvidenceGroup.OTHERS),
        ("online_states", EvidenceGroup.LEARNT),
        ("user_ended_since_submit", EvidenceGroup.USER),
    ],
)
def test_kinds_of_evidence(column: str, group: EvidenceGroup) -> None:
    assert group_of(column) is group


def test_the_online_regression_is_grouped_with_its_evidence() -> None:
    counts = {"user_request_ended": 3.0, "user_name_ended": 5.0, "user_ended": 9.0}
    assert resolved(EvidenceGroup.LEARNT, counts) is EvidenceGroup.REQUEST
    assert resolved(EvidenceGroup.LEARNT, counts | {"user_request_ended": math.nan}) is EvidenceGroup.NAME
    assert resolved(EvidenceGroup.LEARNT, {}) is EvidenceGroup.OTHERS
    assert resolved(EvidenceGroup.MEMORY, counts) is EvidenceGroup.MEMORY


def test_reasons_add_up(table: JobTable, bundle: Bundle) -> None:
    rows = np.flatnonzero(table.labelled)[-400::20]
    matrix = bundle.assembly.matrix(table, rows)
    contributions, margins, risk = (
        bundle.contributions(matrix),
        bundle.margins(matrix),
        bundle.probability(matrix),
    )
    for place, row in enumerate(rows):
        found = reasons(bundle, matrix, values_of(table, row), row=place)
        weights = [reason.weight for reason in found]
        assert sum(weights) == pytest.approx(contributions[place, :-1].sum(), abs=1e-9)
        assert sum(weights) == pytest.approx(margins[place] - contributions[place, -1], abs=1e-4)
        named = [reason for reason in found if reason.group != EVERYTHING_ELSE]
        assert len(named) <= 5
        assert [abs(r.weight) for r in named] == sorted((abs(r.weight) for r in named), reverse=True)
        assert found[-1].risk_after == pytest.approx(risk[place], abs=1e-4)
        for before, after in pairwise(found):
            assert before.risk_after == after.risk_before
        columns = [name for reason in found for name in reason.features]
        assert len(columns) == len(set(columns)), "no column twice"
        assert not any(re.search(r"[a-z]_[a-z]|\bnan\b|\bNone\b", in_words(reason)) for reason in found)


def test_reasons_for_and_against_failure_are_listed(table: JobTable, bundle: Bundle) -> None:
    rows = np.flatnonzero(table.labelled)[-400:]
    matrix = bundle.assembly.matrix(table, rows)
    signs = [
        {
            math.copysign(1, reason.weight)
            for reason in reasons(bundle, matrix, values_of(table, row), row=place)
        }
        for place, row in enumerate(rows[:40])
    ]
    assert {1.0, -1.0} in signs


def test_a_model_for_start(start_table: JobTable) -> None:
    values = {"node_rate_max": 0.42, "node_since_fail": 90.0, "wait": 7200.0}
    assert "42% of the last jobs on the worst of the allocated nodes failed" in sentence(
        EvidenceGroup.NODES, values
    )
    assert "1.5 minutes ago" in sentence(EvidenceGroup.NODES, values)
    assert "this job waited 2 hours" in sentence(EvidenceGroup.QUEUE, values)
    assert set(map(group_of, start_table.names)) >= {EvidenceGroup.NODES, EvidenceGroup.QUEUE}


@pytest.mark.parametrize("group", [group for group in EvidenceGroup if group is not EvidenceGroup.LEARNT])
@pytest.mark.parametrize("value", [math.nan, 0.0, 1.0, -3.0, 60.0])
def test_any_values_make_a_sentence(group: EvidenceGroup, value: float) -> None:
    text = sentence(group, {column: value for column in COLUMNS if column != "weekday"} | {"weekday": 2.0})
    assert text
    assert "nan" not in text
    assert sentence(group, {})


def test_words_of_the_user_s_history() -> None:
    values = {
        "user_request_streak": 4.0,
        "user_request_ended": 9.0,
        "user_request_rate15": 0.6,
        "user_request_since_end": 3600.0,
    }
    assert sentence(EvidenceGroup.REQUEST, values) == (
        "your last 4 jobs with this request failed; 60% of the last 9 or so failed; "
        "the last one ended 1 hour ago"
    )
    assert words(evidence(EvidenceGroup.REQUEST, values), Reader("ann")).startswith("ann's last 4 jobs")
    assert sentence(EvidenceGroup.REQUEST, {}) == "your first job with this request"


def test_words_of_limits() -> None:
    values = {"time_limit": 3600.0, "user_request_limit_ratio": -1.0, "user_request_limit15": 0.5}
    assert sentence(EvidenceGroup.TIME_LIMIT, values) == (
        "time limit 1:00:00, half the typical run time of your jobs with this request (2:00:00); "
        "50% of your recent jobs with this request reached their time limit"
    )
    values = {"memory": 8.0 * 2**30, "user_memory_ratio": 3.0}
    assert (
        sentence(EvidenceGroup.MEMORY, values)
        == "requested memory 8 GiB in total, 8 times what your jobs typically used per task"
    )


def test_other_users_appear_in_aggregate_only() -> None:
    few = {"script_rate100": 1.0, "script_ended": CROWD - 1.0}
    assert "%" not in sentence(EvidenceGroup.OTHERS, few)
    assert "%" not in sentence(EvidenceGroup.PARTITION, {"partition_rate100": 1.0, "partition_ended": 3.0})
    assert "10%" in sentence(EvidenceGroup.PARTITION, {"partition_rate100": 0.1, "partition_ended": 300.0})
    alone = {"fail_rate_10m": 1.0, "ends_10m": 1.0, "fail_rate_1d": 0.2}
    assert "100%" not in sentence(EvidenceGroup.CLUSTER, alone)
    enough = few | {"script_ended": CROWD}
    assert sentence(EvidenceGroup.OTHERS, enough).endswith("jobs of all users: this script or program 100%")


def test_the_waterfall_is_a_figure() -> None:
    steps = [
        Reason(
            code=ReasonCode.PROFILE,
            values={"profile": "<small> & so on " * 12},
            group="a",
            weight=2.0,
            risk_before=0.1,
            risk_after=0.5,
        ),
        Reason(code=ReasonCode.SICK_NODE, group="b", weight=-0.5, risk_before=0.5, risk_after=0.4),
    ]
    figure = waterfall_svg(steps)
    root = ElementTree.fromstring(figure)
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"+40", "-10", "this job", "40%"} <= set(texts)
    bars = [bar.get("class") for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars == ["back", "end", "up", "down", "end"]
    with pytest.raises(ValueError, match="at least one"):
        waterfall_svg([])


def test_a_reason_that_went_well_and_raises_the_risk_says_why(bundle: Bundle, table: JobTable) -> None:
    """More failures never count for a job, or the page says what else does."""
    rows = np.flatnonzero(table.labelled)[2500:]
    matrix = bundle.assembly.matrix(table, rows)
    surprising = 0
    for place, row in enumerate(rows[:600]):
        values = {name: float(table.column(name)[row]) for name in table.names}
        for reason in reasons(bundle, matrix, values, row=place):
            entity = {"same_request": "user_request", "same_name": "user_name", "recent_jobs": "user"}.get(
                reason.group
            )
            streak = values.get(f"{entity}_streak", np.nan) if entity else np.nan
            rate = values.get(f"{entity}_rate15", np.nan) if entity else np.nan
            if reason.weight > 0 and streak < 0 and not rate > bundle.base_rate:
                surprising += 1
                raises = r"nevertheless raises the risk(, by \w|: .* usually failed)"
                assert re.search(raises, in_words(reason))
            if reason.weight < 0 and streak > 0 and not rate < bundle.base_rate:
                surprising += 1
                lowers = r"nevertheless lowers the risk(, by \w|: .* usually succeeded)"
                assert re.search(lowers, in_words(reason))
    assert surprising, "else this proves nothing"
