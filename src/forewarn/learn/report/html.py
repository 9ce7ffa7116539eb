"""Render a report as one self-contained HTML page with styles and figures, without scripts.

Text from data (names of partitions, of users' jobs) is escaped, and the page's content security policy
forbids scripts and requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader, Template, UndefinedError

from forewarn import formatting
from forewarn.features.column_meaning import in_words
from forewarn.job.outcomes import cause_name, outcome_name
from forewarn.learn.report import figures
from forewarn.learn.report import wording as words

Json = Mapping[str, Any]

TRIALS_SHOWN, FEATURES_SHOWN = 10, 16
LONGEST = 12  # lists with more values are shown by their length
# What keys of report.json are called on the page, where the key itself does not say it.
LABELS: Mapping[str, str] = MappingProxyType(
    {
        "kind": "method",
        "how": "method",
        "active": "active learning",
        "unseen": "failures of unknown cause",
        "log_loss_of_shares": "log loss of the class shares",
        "alarms": "alerts",
        "f1": "F1",
        "best_f1": "best F1",
        "expected_f1": "expected F1",
        "cost_without_alarms": "cost without alerts",
        "forewarn": "Forewarn",
        "fingerprint": "data hash",
        "size": "CPUs",
        "cpu_efficiency": "CPU efficiency",
        "io_rate": "I/O rate",
    }
)


def render(report: Json) -> str:
    """Render the page of a report, as it is written to `report.json`."""
    return _template().render(
        report=report,
        figures=figures,
        sign_of_lead=words.sign_of_lead,
        feature_words=in_words,
        best_trials=_best_trials(report),
        features=_features(report),
        features_shown=FEATURES_SHOWN,
        longest=LONGEST,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=ChainableUndefined,  # a part that a report does not have is left out
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in (
        *("percent", "percent_in_table", "number", "measure", "difference", "interval"),
        *("rough_duration", "elapsed", "significant"),
    ):
        environment.filters[name] = _or_missing(getattr(formatting, name))
    environment.filters.update(
        quantity=_or_missing(_quantity),
        **{"day": _day, "moment": _moment, "fact": _fact, "figure": _figure, "label": _label},
        **{"rule": words.rule_in_words, "cause": cause_name, "causes": _causes, "outcome": outcome_name},
    )
    environment.filters.update(
        brief=_brief, tabular=_tabular, columns=_columns, numeric=_numeric, without=_without
    )
    return environment.get_template("template.html.j2")


def _or_missing(formatter: Callable[..., str]) -> Callable[..., str]:
    """Wrap a formatter so that what is undefined or not a number is n/a."""

    def filtered(value: Any, *args: Any, **named: Any) -> str:
        try:
            return formatter(value, *args, **named)
        except (TypeError, UndefinedError):
            return formatting.MISSING

    return filtered


def _best_trials(report: Json) -> list[Json]:
    search = report.get("search") or {}
    ran = [trial for trial in search.get("trials") or [] if trial.get("loss") is not None]
    by_pr = search.get("metric") == "pr_auc"
    return sorted(ran, key=lambda trial: -(trial["pr_auc"] or 0) if by_pr else trial["loss"])[:TRIALS_SHOWN]


def _features(report: Json) -> list[Json]:
    found = report.get("features") or []
    return sorted(found, key=lambda feature: -(feature.get("importance") or 0.0))


def _quantity(value: float, name: str) -> str:
    """Format a number of a profile in its unit.

    >>> _quantity(3e9, "memory"), _quantity(16.0, "size"), _quantity(90.0, "wait")
    ('2.8 GiB', '16', '0:01:30')
    """
    if name in ("run_time", "wait"):
        return formatting.duration(value)
    return formatting.byte_size(value) if name == "memory" else formatting.significant(value, 3)


def _day(value: Any) -> str:
    """Return the date of an ISO time."""
    return str(value)[:10] if value else formatting.MISSING


def _moment(value: Any) -> str:
    """Format an ISO time to the second; anything else stays as it is.

    >>> _moment("2026-11-18T04:42:56+00:00")
    '2026-11-18 04:42:56 UTC'
    """
    try:
        seconds = datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError):
        return _fact(value)
    return formatting.timestamp(seconds, "UTC", name_zone=True)


def _label(key: Any) -> str:
    """Format a JSON key as a label.

    >>> _label("share_of_test"), _label("best_f1")
    ('share of test', 'best F1')
    """
    return LABELS.get(str(key), str(key).replace("_", " "))


def _causes(rows: list[Json]) -> list[str]:
    """Name causes, such as `failed (user)`, with the kind of failure where an outcome has several.

    >>> _causes([{"cause": "failed (user)"}, {"cause": "failed (system)"}, {"cause": "timeout (limit)"}])
    ['program error (user)', 'program error (system)', 'time limit']
    """
    pairs = [str(row["cause"]).partition(" ") for row in rows]
    outcomes = Counter(outcome for outcome, _, _ in pairs)
    return [
        f"{cause_name(outcome)} {kind}" if outcomes[outcome] > 1 else cause_name(outcome)
        for outcome, _, kind in pairs
    ]


def _fact(value: Any) -> str:
    """Format a single JSON value."""
    if value is None or value == "":
        return formatting.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return formatting.number(value)
    if isinstance(value, float):
        return formatting.significant(value)
    return str(value)


def _figure(value: Any) -> str:
    """Format a single JSON value, of which a fraction is a statistical measure.

    >>> _figure(0.53965), _figure(956), _figure(0.00001234), _figure("none")
    ('0.540', '956', '1.234e-05', 'none')
    """
    if isinstance(value, float) and (value == 0 or 0.001 <= abs(value) < 1000):
        return formatting.measure(value)
    return _fact(value)


def _brief(value: Json) -> bool:
    """Check whether a mapping fits on one line."""
    return len(value) <= LONGEST and not any(isinstance(part, Mapping | list) for part in value.values())


def _short(cell: Any) -> bool:
    if isinstance(cell, Mapping):
        return _brief(cell)
    return not isinstance(cell, list) or (
        len(cell) <= 3 and not any(isinstance(p, Mapping | list) for p in cell)
    )


def _tabular(parts: Any) -> bool:
    """Check whether mappings can be the rows of one table: similar keys, cells of one line each."""
    rows = list(parts.values() if isinstance(parts, Mapping) else parts)
    return (
        len(rows) > 1
        and all(isinstance(row, Mapping) and row for row in rows)
        and len(_columns(rows)) <= 2 * min(len(row) for row in rows)
        and all(_short(cell) for row in rows for cell in row.values())
    )


def _columns(rows: list[Json]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _numeric(rows: list[Json], column: str) -> bool:
    return all(isinstance(row.get(column), int | float | None) for row in rows)


def _without(value: Json, *names: str) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name not in names}
