"""The report as one HTML page that needs nothing beside it: styles and figures are inside, scripts are none.

Whatever comes from data (names of partitions, of users' jobs) is escaped, and the page's content policy
forbids scripts and requests besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader, Template, UndefinedError

from forewarn.features.column_meaning import in_words
from forewarn.learn.report import figures
from forewarn.learn.report import wording as words

Json = Mapping[str, Any]

TRIALS_SHOWN, FEATURES_SHOWN = 10, 16
LONGEST = 12  # values of a list that are still shown one by one


def render(report: Json) -> str:
    """The page for a report as it is written to `report.json`."""
    return _template().render(
        report=report,
        figures=figures,
        standing=words.standing,
        feature_words=in_words,
        best_trials=_best_trials(report),
        features=_features(report),
        features_shown=FEATURES_SHOWN,
        longest=LONGEST,
    )


@cache
def _template() -> Template:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=ChainableUndefined,  # a part that a report does not have is left out
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("figure", "signed", "share", "interval", "lasting", "measured"):
        made.filters[name] = _lenient(getattr(words, name))
    made.filters.update(count=_lenient(_count), day=_day, fact=_fact, words=_words, rule=words.rule_in_words)
    made.filters.update(brief=_brief, tabular=_tabular, columns=_columns, numeric=_numeric, without=_without)
    return made.get_template("template.html.j2")


def _lenient(told: Callable[..., str]) -> Callable[..., str]:
    """What is not there, or is no number, is not available."""

    def filtered(value: Any, *args: Any, **named: Any) -> str:
        try:
            return told(value, *args, **named)
        except (TypeError, UndefinedError):
            return words.NONE

    return filtered


def _best_trials(report: Json) -> list[Json]:
    search = report.get("search") or {}
    ran = [trial for trial in search.get("trials") or [] if trial.get("loss") is not None]
    by_pr = search.get("metric") == "pr_auc"
    return sorted(ran, key=lambda trial: -(trial["pr_auc"] or 0) if by_pr else trial["loss"])[:TRIALS_SHOWN]


def _features(report: Json) -> list[Json]:
    found = report.get("features") or []
    return sorted(found, key=lambda feature: -(feature.get("importance") or 0.0))


def _count(value: int) -> str:
    return f"{value:,}"


def _day(value: Any) -> str:
    """The date of a moment as ISO writes it."""
    return str(value)[:10] if value else words.NONE


def _words(key: Any) -> str:
    """
    >>> _words("share_of_test")
    'share of test'
    """
    return str(key).replace("_", " ")


def _fact(value: Any) -> str:
    """A single value, as a person would write it."""
    if value is None or value == "":
        return words.NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _count(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _brief(value: Json) -> bool:
    """Whether a part is short enough for one line."""
    return len(value) <= LONGEST and not any(isinstance(part, Mapping | list) for part in value.values())


def _short(cell: Any) -> bool:
    if isinstance(cell, Mapping):
        return _brief(cell)
    return not isinstance(cell, list) or (
        len(cell) <= 3 and not any(isinstance(p, Mapping | list) for p in cell)
    )


def _tabular(parts: Any) -> bool:
    """Whether several parts are rows of one table: alike, with cells of one line each."""
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
