"""Figures by decision, by hours and by cause, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.serve.cli.terminal.output import note, print_facts, print_table
from forewarn.serve.cli.terminal.safe_text import echo

Json = Mapping[str, Any]
_AREAS = {"roc_auc": "ROC-AUC", "pr_auc": "PR-AUC"}
_TOP = {"top_5": "top 5 %", "top_10": "top 10 %", "top_20": "top 20 %"}


def print_figures(found: Json, rules: Mapping[str, str]) -> None:
    """What an evaluation or a phase of a benchmark says beside its figures by job."""
    if decisions := found.get("by_decision"):
        _print_decisions(decisions, rules)
    if hours := found.get("hours"):
        _print_hours(hours, rules)
    if causes := found.get("causes"):
        _print_causes(causes)


def _print_decisions(found: Json, rules: Mapping[str, str]) -> None:
    ahead = found["above_best_baseline"]
    print_facts(
        "\nBy decision: one vote for each bulk of equal jobs",
        {
            "decisions": f"{found['decisions']:,}, worth {found['effective']:,.0f} of equal size",
            "ROC-AUC, PR-AUC": f"{_number(found['roc_auc'])}, {_number(found['pr_auc'])}",
            "F1": f"{found['f1']:.3f}{_between(found, 'f1')}",
            "F1 above the best simple rule": (
                f"{ahead['f1']:+.3f}{_between(found, 'f1_above_best_baseline', sign='+')}"
                f"  ({rules.get(ahead['baseline'], ahead['baseline'])})"
            ),
        },
    )
    blocks: Json = found.get("blocks") or {"test": found}
    if few := {name: block["effective"] for name, block in blocks.items() if block["few"]}:
        said = ", ".join(f"{name} {worth:,.0f}" for name, worth in few.items())
        note(f"few effective decisions in {said}: figures there may be those of one bulk")


def _print_hours(found: Json, rules: Mapping[str, str]) -> None:
    if found["n"] is None:
        note(f"by hours: {found['note']}")
        return
    best = found["best_rule"]
    rows = {
        "this model": found,
        "hours asked for alone": found["asked_alone"],
        f"best rule: {rules.get(best['rule'], best['rule'])}": best,
    }
    echo()
    print_facts(
        "By CPU hours: each job weighs what it used",
        {"wasted": f"{found['wasted']:,.0f} of {found['cpu_hours']:,.0f} CPU hours"},
    )
    headings = ["ranked by", *_AREAS.values(), *_TOP.values()]
    print_table(
        headings,
        [
            [
                who,
                *(_number(row[name]) for name in _AREAS),
                *(None if row[name] is None else f"{row[name]:.1%}" for name in _TOP),
            ]
            for who, row in rows.items()
        ],
        right=headings[1:],
    )
    if found["note"]:
        note(f"by hours: {found['note']}")
    elif interval := found["intervals"].get("pr_auc_above_asked_alone"):
        ahead = found["above"]["pr_auc_above_asked_alone"]
        print_facts(
            "", {"PR-AUC above hours asked": f"{ahead:+.3f}  [{interval[0]:+.3f}, {interval[1]:+.3f}]"}
        )


def _print_causes(found: Json) -> None:
    echo()
    headings = ["cause", "jobs", "of all", "ROC-AUC", "PR-AUC", "of hours", "ROC-AUC, hours", "PR-AUC, hours"]
    print_table(
        headings,
        [
            [
                name.replace("_", " "),
                f"{row['n']:,}",
                f"{row['base_rate']:.1%}",
                *(_number(row[area]) for area in _AREAS),
                None if row["hours"]["share"] is None else f"{row['hours']['share']:.1%}",
                *(_number(row["hours"][area]) for area in _AREAS),
            ]
            for name, row in found.items()
        ],
        right=headings[1:],
    )


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _between(found: Json, name: str, sign: str = "") -> str:
    interval = found["intervals"].get(name)
    return f"  [{interval[0]:{sign}.3f}, {interval[1]:{sign}.3f}]" if interval else ""
