"""Whether what would serve is ever below the best last-outcome rule, on every real log.

    python bench/never_below_rule.py ../shared/data [--log pozidriv] [--phases submit] [--families online]

Blocks in order of time; the F1 of the last 20 % at the threshold from the block before, against the best of
the rules on the same jobs, which is chosen with hindsight. Below is: by more than the noise of a user-week
bootstrap. Ends with 1 where a log is. CI runs a short form (tests/learn/test_never_below_rule.py): the first
lines of each log (`--short`), and two families.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from forewarn.config import Config
from forewarn.errors import NotEnoughError, SourceError
from forewarn.job.columns import complete
from forewarn.job.phase import PHASES
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.baselines import baseline_alarms, best_rule
from forewarn.learn.evaluation.metrics import ScoredPredictions, f1
from forewarn.learn.evaluation.prequential import predict_static
from forewarn.learn.evaluation.rule_labels import rule_label
from forewarn.learn.fitting.fit import fit
from forewarn.learn.fitting.fit_settings import ALL_FAMILIES, FitSettings
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import SourceOptions, open_source
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store


@dataclass(frozen=True, slots=True)
class Log:
    """A real log, and how it is read."""

    path: str
    source: str
    policy: str
    features: str = "generic"
    options: SourceOptions | None = None
    bad_rows: int = 0
    first_lines: int | None = 8_000  # that `--short` reads; None: all

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return Path(self.path).name.split(".")[0]


_SWF = ("CTC-SP2-1996-3.1", "SDSC-SP2-1998-4.2", "LANL-CM5-1994-4.1", "LLNL-Thunder-2007-1.1")
# Of sacct's text without a header.
_POZIDRIV = (
    *("JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID", "Submit"),
    *("Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS", "ReqMem"),
    *("ReqTRES", "AllocTRES", "Timelimit", "NodeList", "JobName"),
)
LOGS = (
    *(Log(f"swf/{name}-cln.swf.gz", "swf", "papers", "swf") for name in (*_SWF, "SDSC-BLUE-2000-4.2")),
    # Its status is an exit code: without saying so its labels would be inverted.
    Log("swf/Sandia-Ross-2001-1.1-cln.swf.gz", "swf", "papers", "swf", SourceOptions(status="exit-code")),
    # Jobs that wait for days: in fewer lines too few have ended by the time that the next block begins.
    Log("modern/graham-2021.sacct.gz", "sacct", "wasted", first_lines=40_000),
    Log("modern/supercloud-2021-subset.csv.gz", "slurmdb", "wasted", first_lines=None),
    Log(
        "sacct/pozidriv.log.gz", "sacct", "papers", options=SourceOptions(fields=_POZIDRIV), first_lines=None
    ),
    # The file ends in the middle of its last document; some documents name no cluster.
    Log(
        "modern/jobcomp-elasticsearch-2023.json.gz",
        "jobcomp",
        "papers",
        options=SourceOptions(cluster="deucalion"),
        bad_rows=1,
        first_lines=None,
    ),
    Log("nrel/sample_eagle_data.csv", "nrel", "papers"),
)
# Slurm's base states, as slurmdbd stores them.
STATES = {
    **{3: "completed", 4: "cancelled", 5: "failed", 6: "timeout", 7: "node_fail", 8: "preempted"},
    **{9: "boot_fail", 10: "deadline", 11: "out_of_memory"},
}


def filled(store: Store, log: Log, path: Path) -> str:
    """Put a log into a store; its cluster. A log that holds other rows than it is known to is refused."""
    if log.source == "slurmdb":
        clusters: tuple[str, ...] = ("supercloud",)
        with store.writing() as writer:
            writer.observe("job", slurmdb(path))
            writer.describe_cluster(clusters[0], ClusterFacts())
    else:
        with TemporaryDirectory() as rejects:
            source = open_source(f"{log.source}:{path}", log.options)
            report = ingest(store, source, rejects=lambda: Path(rejects, "rows"))
        if report.bad != log.bad_rows:
            raise SourceError(f"{path}: {report.bad} bad rows, where {log.bad_rows} are known")
        clusters = tuple(report.clusters)
    review_missing_fields(store, clusters)
    return clusters[0]


def slurmdb(path: Path) -> pl.DataFrame:
    """Rows of slurmdbd's job table as observations; no source reads them.

    The top bit of `mem_req` says per CPU, and in this export such a number is rounded, its amount lost: the
    memory of the whole job, in `tres_req` as resource 2, stands in for it. Outside arrays its number is
    a hash of 0, and the task Slurm's "not set".
    """
    rows = pl.read_csv(path, infer_schema_length=None)
    of_job, nodes = (pl.col("tres_req").str.extract(rf"\b{n}=(\d+)").cast(pl.Int64) for n in (2, 4))
    per_node = pl.col("mem_req") < 2.0**62
    memory = pl.when(per_node).then(pl.col("mem_req")).otherwise(of_job // nodes)
    start, end = (pl.when(pl.col(name) > 0).then(pl.col(name)) for name in ("time_start", "time_end"))
    frame = rows.select(
        cluster=pl.lit("supercloud"),
        job_id=pl.int_range(1, pl.len() + 1).cast(pl.String),  # its own ids are rounded hashes
        submit=pl.col("time_submit"),
        user=pl.col("id_user").cast(pl.Int64).cast(pl.String),
        array_job_id=pl.when(pl.col("id_array_task") < 2**32 - 2).then(pl.col("id_array_job").cast(pl.Int64)),
        partition=pl.col("partition"),
        cpus_asked=pl.col("cpus_req"),
        memory_per=pl.lit("node"),
        memory_asked=memory.cast(pl.Int64) * 2**20,
        time_limit=pl.when(pl.col("timelimit") < 2**31).then(pl.col("timelimit") * 60),
        start=start,
        end=end,
        outcome=pl.col("state").cast(pl.Int64).replace_strict(STATES, default="unknown"),
    )
    return complete(frame.sort("submit")).with_columns(
        seen_at=pl.coalesce("end", "start", "submit"), source=pl.lit("slurmdb"), reconstructed=pl.lit(True)
    )


def row(table: JobTable, settings: FitSettings) -> tuple[bool, tuple[str, ...]]:
    """Return whether a model is below the best rule, and the cells of its row in the table."""
    with TemporaryDirectory() as searches:
        fitted = fit(table, settings, folder=Path(searches))
    predictions = predict_static(table, fitted)
    fails, alarms = table.fails[predictions.rows], predictions.p >= predictions.thresholds
    rules = baseline_alarms(table, predictions.rows, fitted.learnt_rows)
    best = best_rule(rules, fails)
    groups = bootstrap.groups(table.about[predictions.rows])
    ahead = bootstrap.difference(groups, fails, alarms, rules[best])
    low, high = ahead["interval"] or (np.nan, np.nan)
    judged = ScoredPredictions(fails, predictions.p)
    return bool(high < 0), (
        *(f"{len(fails):,}", f"{judged.roc_auc():.3f}", f"{judged.pr_auc():.3f}", f"{judged.ece():.3f}"),
        *(
            f"{f1(fails, alarms):.3f}",
            f"{f1(fails, rules[best]):.3f}",
            rule_label(best).removeprefix("rule: "),
        ),
        f"{ahead['f1']:+.3f} [{low:+.3f}, {high:+.3f}]",
        rule_label(fitted.rule) if fitted.rule else "model",
    )


def tables(
    log: Log, folder: Path, phases: Sequence[str] = PHASES, *, short: bool = False
) -> Iterator[tuple[str, JobTable]]:
    """Yield the table of each phase of a log, or of its first lines."""
    with TemporaryDirectory() as home:
        path = folder / log.path
        if short and log.first_lines is not None:
            path = first_lines(path, Path(home, path.name), log.first_lines)
        with open_store(Config(home=Path(home, "store"))) as store:
            cluster = filled(store, log, path)
            for phase in phases:
                yield phase, read_table(store, cluster, phase, POPULATIONS[log.policy])


def first_lines(path: Path, copy: Path, lines: int) -> Path:
    """Copy the first lines of a log, compressed as it is."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as whole, opened(copy, "wb") as part:
        part.writelines(islice(whole, lines))
    return copy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--log", default="", help="only logs in whose path this is")
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--families", default=",".join(ALL_FAMILIES))
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--short", action="store_true", help="only the first lines of each log")
    given = parser.parse_args()
    below = []
    print("| log | phase | jobs | ROC-AUC | PR-AUC | ECE | F1 | best rule | which | F1 ahead | serves | s |")
    print("|" + "---|" * 12)
    families = tuple(given.families.split(","))
    for log in (one for one in LOGS if given.log.lower() in one.path.lower()):
        settings = FitSettings(feature_set=log.features, families=families, trials=given.trials)
        for phase, table in tables(log, given.folder, given.phases.split(","), short=given.short):
            began = time.perf_counter()
            try:
                is_below, cells = row(table, settings)
            except NotEnoughError as error:
                print(f"| {log.name} | {phase} | no model: {error} |" + " |" * 9, flush=True)
                continue
            below += [f"{log.path} at {phase}"] * is_below
            print(
                f"| {' | '.join((log.name, phase, *cells))} | {time.perf_counter() - began:.0f} |", flush=True
            )
    if below:
        sys.exit(f"below the best rule by more than noise: {', '.join(below)}")


if __name__ == "__main__":
    main()
