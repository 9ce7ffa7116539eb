"""`forewarn bench`: one log, each phase, every figure beside the simple rules on the same jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from forewarn.job.phase import MEASURED
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import (
    RULES,
    bench_features_option,
    bench_policy_option,
    chosen_families,
    cluster_option,
    print_alarms,
    search_options,
    status_option,
)
from forewarn.serve.cli.terminal.figures import print_figures
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table
from forewarn.serve.cli.terminal.progress import progress
from forewarn.serve.cli.terminal.safe_text import echo


def _phases(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    asked = [phase.strip() for phase in value.split(",") if phase.strip()]
    unknown = [phase for phase in asked if phase not in MEASURED]
    if unknown or not asked:
        raise click.BadParameter(f"{value!r}: phases are {', '.join(MEASURED)}, separated by commas")
    return tuple(phase for phase in MEASURED if phase in asked)


@click.command("bench")
@click.argument("source", required=False, metavar="[SOURCE]")
@home_option
@cluster_option
@click.option(
    "--phases",
    callback=_phases,
    default="submit,start",
    show_default=True,
    metavar="LIST",
    help="Of submit, start, posthoc. posthoc adds run and CPU time, as the papers do: known only at the end.",
)
@click.option(
    "--retrain",
    type=click.Choice(("none", "weekly")),
    default="none",
    show_default=True,
    help="weekly: a new model every week of the test part, from all that was known by then.",
)
@bench_features_option
@bench_policy_option
@status_option
@search_options
@json_option
def command(
    source: str | None,
    home: Path | None,
    families: tuple[str, ...],
    as_json: bool,
    **how: Any,
) -> None:
    """Measure on one log how well failure can be predicted, beside simple rules.

    Models are searched, calibrated and given their threshold on the first 80 % of the jobs in order of
    time, and measured on the last 20 %. Nothing is registered. At phase start, jobs that never started
    have no part; what the model of submit says of the same jobs stands beside it.

    posthoc is the papers' protocol: it knows run and CPU time, so it can be measured but never serve.
    The policy is theirs too, unless said otherwise: everything but completed counts as failure.

    SOURCE: a file, as in swf:FILE or sacct:FILE, or the accounting of the Slurm that is configured, slurm:
    (30 days) or slurm:TIME; left out, the store's cluster.

    \b
    Examples:
      forewarn bench swf:CTC-SP2-1996-3.1-cln.swf.gz
      forewarn bench swf:FILE --phases posthoc --json
      forewarn bench sacct:history.txt --retrain weekly --policy wasted
    """
    from forewarn.operate.bench import bench

    with opened(home=home) as workspace:
        families = chosen_families(families)
        result = bench(workspace, source, families=families, watch=progress, note=note, **how)
    if as_json:
        about = {"log": result.log, "policy": result.policy, "features": result.feature_set}
        how_made = {"retrain": result.retrain, "seed": result.seed}
        print_json({**about, **how_made, "phases": result.phases})
        return
    for phase, entry in result.phases.items():
        _print_phase(result.log, phase, entry)


def _print_phase(log: str, phase: str, entry: Mapping[str, Any]) -> None:
    ahead = entry["above_best_baseline"]
    interval = ahead["interval"]
    print_facts(
        f"\n{log} at {phase}",
        {
            "protocol": entry.get("protocol"),
            "jobs": f"{entry['n']:,}, of which {entry['base_rate']:.1%} failed",
            "ROC-AUC, PR-AUC": f"{entry['roc_auc']:.3f}, {entry['pr_auc']:.3f}",
            "Brier, ECE": f"{entry['brier']:.4f}, {entry['ece']:.4f}",
            "F1 above the best simple rule": f"{ahead['f1']:+.3f}"
            + (f"  [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else ""),
            "not enough evidence": f"for {entry['abstention']['share']:.0%} of these jobs"
            if entry["abstention"]["share"]
            else None,
            "made of": entry["rule"]
            or ", ".join(f"{weight:.0%} {family}" for family, weight in entry["members"].items()),
            "retrained": f"{entry['retrained']} time{'s' * (entry['retrained'] > 1)}"
            if entry["retrained"]
            else None,
            "the model of submit on these jobs": (
                f"ROC-AUC {same['roc_auc']:.3f}, PR-AUC {same['pr_auc']:.3f}"
                if (same := entry.get("submit_on_these_jobs"))
                else None
            ),
        },
    )
    own = {
        f"model, threshold {entry['at_validation']['threshold']:.2f}": entry["at_validation"],
        "model, threshold 0.50": entry["at_0_5"],
    }
    print_alarms(own, entry["baselines"], entry["base_rate"])
    print_figures(entry, RULES)
    if published := entry.get("published"):
        _print_published(published, log, entry["at_0_5"])


def _print_published(published: list[dict[str, Any]], log: str, ours: dict[str, Any]) -> None:
    """The papers' own figures beside ours at their threshold, 0.5; the log of each row is named."""
    measures = ("accuracy", "precision", "recall", "f1")
    echo()
    print_table(
        ["posthoc, threshold 0.5", *measures],
        [
            [f"this model on {log}", *(f"{ours[name]:.1%}" for name in measures)],
            *(
                [
                    f"published: {row['log']}" + ("" if row["run_here"] else ", not run here"),
                    *(f"{row[name]:.1%}" for name in measures),
                ]
                for row in published
            ),
        ],
        right=measures,
    )
    for row in published:
        if row["note"]:
            note(f"{row['log']}: {row['note']}")
