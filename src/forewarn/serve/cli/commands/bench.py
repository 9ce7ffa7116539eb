"""`forewarn bench`: measure predictions on one log at each phase, beside simple rules on the same jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from forewarn.formatting import (
    count,
    difference,
    interval,
    measure,
    number,
    percent,
    percent_in_table,
)
from forewarn.job.phase import MEASURED
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import (
    bench_features_option,
    bench_population_option,
    chosen_families,
    cluster_option,
    print_alerts,
    search_options,
    status_option,
)
from forewarn.serve.cli.terminal.figures import print_figures
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table
from forewarn.serve.cli.terminal.progress import progress
from forewarn.serve.cli.terminal.safe_text import echo


def _phases(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    phases = [phase.strip() for phase in value.split(",") if phase.strip()]
    unknown = [phase for phase in phases if phase not in MEASURED]
    if unknown or not phases:
        raise click.BadParameter(f"{value!r}: choose from {', '.join(MEASURED)}, separated by commas")
    return tuple(phase for phase in MEASURED if phase in phases)


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
    help="submit, start, posthoc (as the papers: with run time and CPU time, known only at the end).",
)
@click.option(
    "--retrain",
    type=click.Choice(("none", "weekly")),
    default="none",
    show_default=True,
    help="weekly: train a new model in every week of the test period, on all outcomes known by then.",
)
@bench_features_option
@bench_population_option
@status_option
@search_options
@json_option
def command(
    source: str | None,
    home: Path | None,
    families: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Benchmark failure prediction on one log, beside simple rules.

    Models are searched, calibrated and given their threshold on the first 80% of the jobs by time, and
    evaluated on the last 20%. Nothing is registered. Phase start leaves out jobs that never started, and
    also shows the result of the submit model on the same jobs.

    posthoc is the papers' protocol: it uses run time and CPU time, so it can be measured but never serve.
    The default population is theirs too: every outcome but completed counts as failure.

    SOURCE: a file such as swf:FILE or sacct:FILE, or the accounting of the configured Slurm as slurm:
    (30 days) or slurm:TIME.  [default: the store]

    \b
    Examples:
      forewarn bench swf:CTC-SP2-1996-3.1-cln.swf.gz
      forewarn bench swf:FILE --phases posthoc --json
      forewarn bench sacct:history.txt --retrain weekly --population wasted
    """
    from forewarn.operate.bench import bench

    with opened(home=home) as workspace:
        families = chosen_families(families)
        result = bench(workspace, source, families=families, watch=progress, note=note, **options)
    if as_json:
        about = {"log": result.log, "policy": result.population, "features": result.feature_set}
        settings = {"retrain": result.retrain, "seed": result.seed}
        print_json({**about, **settings, "phases": result.phases})
        return
    for phase, entry in result.phases.items():
        _print_phase(result.log, phase, entry)


def _print_phase(log: str, phase: str, entry: Mapping[str, Any]) -> None:
    from forewarn.learn.report.wording import RULES

    lead = entry["above_best_baseline"]
    print_facts(
        f"\n{log} at {phase}",
        {
            "protocol": entry.get("protocol"),
            "jobs": f"{number(entry['n'])}, {percent_in_table(entry['base_rate'])} failed",
            "ROC-AUC, PR-AUC": f"{measure(entry['roc_auc'])}, {measure(entry['pr_auc'])}",
            "Brier, ECE": f"{measure(entry['brier'], 4)}, {measure(entry['ece'], 4)}",
            "F1 gain over the best simple rule": (
                f"{difference(lead['f1'])}  {interval(lead['interval'], signed=True)}".rstrip()
            ),
            "no prediction": f"for {percent(entry['abstention']['share'])} of jobs, for lack of evidence"
            if entry["abstention"]["share"]
            else None,
            "ensemble": entry["rule"]
            or ", ".join(f"{percent(weight)} {family}" for family, weight in entry["members"].items()),
            "retrained": count(entry["retrained"], "time") if entry["retrained"] else None,
            "submit model on these jobs": (
                f"ROC-AUC {measure(at_submit['roc_auc'])}, PR-AUC {measure(at_submit['pr_auc'])}"
                if (at_submit := entry.get("submit_on_these_jobs"))
                else None
            ),
        },
    )
    own = {
        f"this model, threshold {measure(entry['at_validation']['threshold'], 2)}": entry["at_validation"],
        "this model, threshold 0.50": entry["at_0_5"],
    }
    print_alerts(own, entry["baselines"], entry["base_rate"])
    print_figures(entry, RULES)
    if published := entry.get("published"):
        _print_published(published, log, entry["at_0_5"])


def _print_published(published: list[dict[str, Any]], log: str, ours: dict[str, Any]) -> None:
    """Print the papers' figures beside this model's at their threshold of 0.5, each with its log."""
    measures = ("accuracy", "precision", "recall", "f1")
    echo()
    print_table(
        ["posthoc, threshold 0.5", *measures],
        [
            [f"this model on {log}", *(percent_in_table(ours[name]) for name in measures)],
            *(
                [
                    f"published: {row['log']}" + ("" if row["run_here"] else ", not run here"),
                    *(percent_in_table(row[name]) for name in measures),
                ]
                for row in published
            ),
        ],
        right=measures,
    )
    for row in published:
        if row["note"]:
            note(f"{row['log']}: {row['note']}")
