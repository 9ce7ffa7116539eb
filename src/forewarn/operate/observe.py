"""Write a scheduler's records to the store: final records as they are, observations only if they are new."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forewarn.features.slurm_field_differences import with_slurm_treatments
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import KEYS, complete, record_schema
from forewarn.job.outcomes import Outcome
from forewarn.sources.base import Batch
from forewarn.store.base import ClusterFacts, Store, StoreWriter
from forewarn.store.filters import Missing

# Fields that change all the time: they are written when another field changes, but are no news on their own.
VOLATILE: Mapping[str, frozenset[str]] = {
    "job": frozenset({"priority"}),
    "node": frozenset({"cpu_load", "memory_free", "last_busy", "cpus_given", "memory_given"}),
    "partition": frozenset(),
}


ExtraWrite = Callable[[StoreWriter, Sequence[pl.DataFrame]], None]


@dataclass(slots=True)
class ObservedCounts:
    """The counts of one write."""

    new_jobs: int = 0  # that the store did not have
    changed_jobs: int = 0  # new observations of jobs that it had
    others: int = 0  # observations of nodes and partitions
    ended: bool = False  # whether there may be outcomes among the new observations


def write_batches(
    store: Store,
    batches: Iterable[Batch],
    *,
    timezone: str | None = None,
    cursors: Mapping[str, str] | None = None,
    also: ExtraWrite | None = None,
) -> ObservedCounts:
    """Write records and cursors in one transaction.

    `also` is called within it, with the frames of new job observations, and may write more.
    """
    counts, before = ObservedCounts(), store.count()
    frames = [(batch.kind, _rows_to_write(store, batch)) for batch in batches]
    frames = [(kind, frame) for kind, frame in frames if frame.height]
    if not frames and not cursors and also is None:
        return counts
    clusters = store.clusters()
    observed = 0
    with store.writing() as writer:
        for cluster in {name for _, frame in frames for name in frame["cluster"].unique()}:
            facts = clusters.get(cluster)
            new_facts = with_slurm_treatments(
                dataclasses.replace(
                    facts or ClusterFacts(), timezone=timezone or (facts.timezone if facts else "UTC")
                )
            )
            if new_facts != facts:
                writer.describe_cluster(cluster, new_facts)
        for kind, frame in frames:
            new = writer.observe(kind, frame).new
            if kind == "job":
                observed += new
                counts.ended |= new > 0 and frame["outcome"].null_count() < frame.height
            else:
                counts.others += new
        for name, value in (cursors or {}).items():
            writer.set_cursor(name, value)
        if also is not None:
            also(writer, [frame for kind, frame in frames if kind == "job"])
    counts.new_jobs = store.count() - before
    counts.changed_jobs = observed - counts.new_jobs
    return counts


def _rows_to_write(store: Store, batch: Batch) -> pl.DataFrame:
    """Return all final records, of which the store skips known ones, and the observations that are new."""
    if batch.kind != "job":
        return new_rows(store, batch.kind, batch.frame)
    frame = split_arrays(batch.frame)
    final = pl.col("reconstructed") & pl.col("outcome").is_not_null()
    return pl.concat([frame.filter(final), new_rows(store, "job", frame.filter(~final))])


def without_known_ends(store: Store, live: Batch) -> Batch:
    """Remove from observations of live jobs the outcomes that the store has already.

    The controller lists a job for minutes after its end. If the store has that end from accounting, the
    outcome became known then, and not when it is first observed here.
    """
    ended = live.frame.filter(pl.col("outcome").is_not_null())
    if ended.is_empty():
        return live
    key = list(KEYS["job"])
    frames = store.scan(
        since=ended["submit"].to_numpy().min(),
        job_ids=ended["job_id"].to_list(),
        columns=key,
        where=~Missing("outcome"),
    )
    stored = pl.concat([ended.select(key).clear(), *frames]).with_columns(_stored=pl.lit(True))
    outcome = pl.when(pl.col("_stored").is_null()).then("outcome")
    frame = live.frame.join(stored, on=key, how="left", maintain_order="left").with_columns(outcome=outcome)
    return dataclasses.replace(live, frame=frame.select(live.frame.columns))


def unknown_end_records(store: Store, cluster: str, keys: Sequence[tuple[str, int]], at: int) -> Batch:
    """Build observations that jobs ended with an unknown outcome, except those whose outcome is stored."""
    jobs = pl.DataFrame(keys, schema={"job_id": pl.String, "submit": pl.Int64}, orient="row")
    frames = store.scan(
        cluster=cluster,
        since=min((submit for _, submit in keys), default=at),
        job_ids=jobs["job_id"].to_list(),
        columns=list(KEYS["job"]),
        where=Missing("outcome"),
    )
    stored = pl.concat([pl.DataFrame(schema={n: record_schema("job")[n] for n in KEYS["job"]}), *frames])
    records = stored.join(jobs, on=["job_id", "submit"], how="semi").with_columns(
        state=pl.lit("UNKNOWN"),
        outcome=pl.lit(str(Outcome.UNKNOWN)),
        seen_at=pl.lit(at, pl.Int64),
        source=pl.lit("collector"),
        reconstructed=pl.lit(False),
    )
    return Batch("job", complete(records, "job"))


def new_rows(store: Store, kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the observations that differ from what the store has.

    Each observation has a time of its own, so the store alone would keep one of each job in every round.
    """
    if frame.is_empty():
        return frame
    key = list(KEYS[kind])
    fields = [name for name in record_schema(kind) if name not in key and name not in VOLATILE[kind]]
    empty = pl.DataFrame(schema={name: record_schema(kind)[name] for name in (*key, *fields)})
    stored = pl.concat(
        [
            empty,
            *store.scan(
                kind,
                columns=[*key, *fields],
                since=frame.select(pl.col("submit").min()).item() if kind == "job" else None,
                job_ids=frame["job_id"].to_list() if kind == "job" else None,
            ),
        ]
    )
    both = frame.join(
        stored.with_columns(pl.lit(True).alias("_stored")),
        on=key,
        how="left",
        suffix="_before",
        maintain_order="left",
    )
    differs = pl.any_horizontal(_has_new_value(name) for name in fields)
    return both.filter(pl.col("_stored").is_null() | differs).select(frame.columns)


def _has_new_value(name: str) -> pl.Expr:
    """Check whether a field has a value that differs from the stored one."""
    new, stored = pl.col(name), pl.col(f"{name}_before")
    differs = new.is_not_null() & new.ne_missing(stored)
    if name == "outcome":  # accounting may have a cause from the steps; the controller has "failed" only
        differs &= (new != "failed") | stored.is_null()
    return differs


def only_ended(batch: Batch) -> Batch:
    """Return only the jobs that have ended: of the others the controller knows more, and since when.

    Accounting shows a time limit that was changed later as if it had been requested.
    """
    return Batch(batch.kind, batch.frame.filter(pl.col("outcome").is_not_null()), batch.bad)
