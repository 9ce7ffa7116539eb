"""Show the measures of an evaluation by decision, by CPU hours and by cause, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.formatting import difference, interval, measure, number, percent_in_table
from forewarn.job.outcomes import cause_name
from forewarn.serve.cli.terminal.output import note, print_facts, print_table
from forewarn.serve.cli.terminal.safe_text import echo

Json = Mapping[str, Any]
_AREAS = {"roc_auc": "ROC-AUC", "pr_auc": "PR-AUC"}
_TOP = {"top_5": "top 5%", "top_10": "top 10%", "top_20": "top 20%"}


def print_figures(found: Json, rules: Mapping[str, str]) -> None:
    """Print what an evaluation or a phase of a benchmark has beside its measures by job."""
    if decisions := found.get("by_decision"):
        _print_decisions(decisions, rules)
    if hours := found.get("hours"):
        _print_hours(hours, rules)
    if causes := found.get("causes"):
        _print_causes(causes)


def _print_decisions(found: Json, rules: Mapping[str, str]) -> None:
    ahead = found["above_best_baseline"]
    print_facts(
        "\nBy decision: each bulk of equal jobs counts once",
        {
            "decisions": f"{number(found['decisions'])}, effective number {number(found['effective'])}",
            "ROC-AUC, PR-AUC": f"{measure(found['roc_auc'])}, {measure(found['pr_auc'])}",
            "F1": f"{measure(found['f1'])}{_interval(found, 'f1')}",
            "F1 above the best simple rule": (
                f"{difference(ahead['f1'])}{_interval(found, 'f1_above_best_baseline', signed=True)}"
                f"  ({rules.get(ahead['baseline'], ahead['baseline'])})"
            ),
        },
    )
    blocks: Json = found.get("blocks") or {"test": found}
    if few := {name: block["effective"] for name, block in blocks.items() if block["few"]}:
        blocks_named = ", ".join(f"{name} ({number(effective)})" for name, effective in few.items())
        note(f"few effective decisions in {blocks_named}: the measures there may depend on a single bulk")


def _print_hours(found: Json, rules: Mapping[str, str]) -> None:
    if found["n"] is None:
        note(f"by CPU hours: {found['note']}")
        return
    best = found["best_rule"]
    rows = {
        "this model": found,
        "requested CPU hours alone": found["asked_alone"],
        f"best rule: {rules.get(best['rule'], best['rule'])}": best,
    }
    echo()
    print_facts(
        "By CPU hours: each job weighs the hours that it used",
        {"wasted": f"{number(found['wasted'])} of {number(found['cpu_hours'])} CPU hours"},
    )
    headings = ["ranked by", *_AREAS.values(), *_TOP.values()]
    print_table(
        headings,
        [
            [
                who,
                *(measure(row[name]) for name in _AREAS),
                *(percent_in_table(row[name]) for name in _TOP),
            ]
            for who, row in rows.items()
        ],
        right=headings[1:],
    )
    if found["note"]:
        note(f"by CPU hours: {found['note']}")
    elif found["intervals"].get("pr_auc_above_asked_alone"):
        ahead = difference(found["above"]["pr_auc_above_asked_alone"])
        bounds = _interval(found, "pr_auc_above_asked_alone", signed=True)
        print_facts("", {"PR-AUC above requested CPU hours": f"{ahead}{bounds}"})


def _print_causes(found: Json) -> None:
    echo()
    headings = ["cause", "jobs", "of all", "ROC-AUC", "PR-AUC", "of hours", "ROC-AUC, hours", "PR-AUC, hours"]
    print_table(
        headings,
        [
            [
                cause_name(name),
                number(row["n"]),
                percent_in_table(row["base_rate"]),
                *(measure(row[area]) for area in _AREAS),
                percent_in_table(row["hours"]["share"]),
                *(measure(row["hours"][area]) for area in _AREAS),
            ]
            for name, row in found.items()
        ],
        right=headings[1:],
    )


def _interval(found: Json, name: str, *, signed: bool = False) -> str:
    bounds = found["intervals"].get(name)
    return f"  {interval(bounds, signed=signed)}" if bounds else ""
