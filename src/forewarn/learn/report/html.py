"""Render a report as one self-contained HTML page with styles and figures, without scripts.

Text from data (names of partitions, of users' jobs) is escaped, and the page's content security policy
forbids scripts and requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader, Template, UndefinedError

from forewarn import formatting
from forewarn.features.column_meaning import in_words
from forewarn.learn.report import figures
from forewarn.learn.report import wording as words

Json = Mapping[str, Any]

TRIALS_SHOWN, FEATURES_SHOWN = 10, 16
LONGEST = 12  # lists with more values are shown by their length


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
        *("rough_duration", "significant"),
    ):
        environment.filters[name] = _or_missing(getattr(formatting, name))
    environment.filters.update(
        quantity=_or_missing(_quantity), day=_day, fact=_fact, words=_words, rule=words.rule_in_words
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
    ('2.8 GiB', '16', '1.5 minutes')
    """
    if name in ("run_time", "wait"):
        return formatting.rough_duration(value)
    return formatting.byte_size(value) if name == "memory" else formatting.significant(value, 3)


def _day(value: Any) -> str:
    """Return the date of an ISO time."""
    return str(value)[:10] if value else formatting.MISSING


def _words(key: Any) -> str:
    """Format a JSON key as words.

    >>> _words("share_of_test")
    'share of test'
    """
    return str(key).replace("_", " ")


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
