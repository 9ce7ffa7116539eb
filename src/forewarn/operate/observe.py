"""What a scheduler says, into the store: whole, once, and of live jobs only what is new."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forewarn.features.slurm_field_differences import with_slurm_policies
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import KEYS, complete, record_schema
from forewarn.job.outcomes import Outcome
from forewarn.sources.base import Batch
from forewarn.store.base import ClusterFacts, Store, StoreWriter
from forewarn.store.filters import Missing

# What changes by itself all the time: seen again with whatever else changes, but no news alone.
PASSING: Mapping[str, frozenset[str]] = {
    "job": frozenset({"priority"}),
    "node": frozenset({"cpu_load", "memory_free", "last_busy", "cpus_given", "memory_given"}),
    "partition": frozenset(),
}


Also = Callable[[StoreWriter, Sequence[pl.DataFrame]], None]


@dataclass(slots=True)
class ObservedCounts:
    """What became of some records."""

    new_jobs: int = 0  # that the store knew nothing of
    changed_jobs: int = 0  # observations that say more of jobs that it knew
    others: int = 0  # observations of nodes and partitions
    ended: bool = False  # whether there may be outcomes among what is new


def keep(
    store: Store,
    batches: Iterable[Batch],
    *,
    timezone: str | None = None,
    cursors: Mapping[str, str] | None = None,
    also: Also | None = None,
) -> ObservedCounts:
    """Write records, and with them how far their reader has come: all in one write, or nothing.

    `also` writes more, by what is new of jobs.
    """
    kept, before = ObservedCounts(), store.count()
    frames = [(batch.kind, _new_to(store, batch)) for batch in batches]
    frames = [(kind, frame) for kind, frame in frames if frame.height]
    if not frames and not cursors and also is None:
        return kept
    known = store.clusters()
    observed = 0
    with store.writing() as writer:
        for cluster in {name for _, frame in frames for name in frame["cluster"].unique()}:
            facts = known.get(cluster)
            told = with_slurm_policies(
                dataclasses.replace(
                    facts or ClusterFacts(), timezone=timezone or (facts.timezone if facts else "UTC")
                )
            )
            if told != facts:
                writer.describe_cluster(cluster, told)
        for kind, frame in frames:
            new = writer.observe(kind, frame).new
            if kind == "job":
                observed += new
                kept.ended |= new > 0 and frame["outcome"].null_count() < frame.height
            else:
                kept.others += new
        for name, value in (cursors or {}).items():
            writer.set_cursor(name, value)
        if also is not None:
            also(writer, [frame for kind, frame in frames if kind == "job"])
    kept.new_jobs = store.count() - before
    kept.changed_jobs = observed - kept.new_jobs
    return kept


def _new_to(store: Store, batch: Batch) -> pl.DataFrame:
    """The rows to write. Final records that nobody saw end are all given: the store knows them again."""
    if batch.kind != "job":
        return news(store, batch.kind, batch.frame)
    frame = split_arrays(batch.frame)
    final = pl.col("reconstructed") & pl.col("outcome").is_not_null()
    return pl.concat([frame.filter(final), news(store, "job", frame.filter(~final))])


def without_known_ends(store: Store, live: Batch) -> Batch:
    """Sightings of live jobs; of those whose outcome the store has, the outcome is left out.

    The controller shows a job for minutes after its end. Who sees that first then, and knew of the end from
    accounting, does not learn of it now.
    """
    ended = live.frame.filter(pl.col("outcome").is_not_null())
    if ended.is_empty():
        return live
    key = list(KEYS["job"])
    found = store.scan(
        since=ended["submit"].to_numpy().min(),
        job_ids=ended["job_id"].to_list(),
        columns=key,
        where=~Missing("outcome"),
    )
    known = pl.concat([ended.select(key).clear(), *found]).with_columns(_known=pl.lit(True))
    outcome = pl.when(pl.col("_known").is_null()).then("outcome")
    frame = live.frame.join(known, on=key, how="left", maintain_order="left").with_columns(outcome=outcome)
    return dataclasses.replace(live, frame=frame.select(live.frame.columns))


def unknown_ends(store: Store, cluster: str, keys: Sequence[tuple[str, int]], at: int) -> Batch:
    """Observations that some jobs have ended, and nobody can tell how; not of those that somebody could."""
    wanted = pl.DataFrame(keys, schema={"job_id": pl.String, "submit": pl.Int64}, orient="row")
    frames = store.scan(
        cluster=cluster,
        since=min((submit for _, submit in keys), default=at),
        job_ids=wanted["job_id"].to_list(),
        columns=list(KEYS["job"]),
        where=Missing("outcome"),
    )
    found = pl.concat([pl.DataFrame(schema={n: record_schema("job")[n] for n in KEYS["job"]}), *frames])
    marks = found.join(wanted, on=["job_id", "submit"], how="semi").with_columns(
        state=pl.lit("UNKNOWN"),
        outcome=pl.lit(str(Outcome.UNKNOWN)),
        seen_at=pl.lit(at, pl.Int64),
        source=pl.lit("collector"),
        reconstructed=pl.lit(False),
    )
    return Batch("job", complete(marks, "job"))


def news(store: Store, kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that say something else than what the store holds for current.

    A sighting has a moment of its own, so the store would keep one of each job a minute.
    """
    if frame.is_empty():
        return frame
    key = list(KEYS[kind])
    told = [name for name in record_schema(kind) if name not in key and name not in PASSING[kind]]
    nothing = pl.DataFrame(schema={name: record_schema(kind)[name] for name in (*key, *told)})
    known = pl.concat(
        [
            nothing,
            *store.scan(
                kind,
                columns=[*key, *told],
                since=frame.select(pl.col("submit").min()).item() if kind == "job" else None,
                job_ids=frame["job_id"].to_list() if kind == "job" else None,
            ),
        ]
    )
    both = frame.join(
        known.with_columns(pl.lit(True).alias("_known")),
        on=key,
        how="left",
        suffix="_before",
        maintain_order="left",
    )
    differs = pl.any_horizontal(_says_more(name) for name in told)
    return both.filter(pl.col("_known").is_null() | differs).select(frame.columns)


def _says_more(name: str) -> pl.Expr:
    """Whether a field says something that was not known before."""
    here, before = pl.col(name), pl.col(f"{name}_before")
    more = here.is_not_null() & here.ne_missing(before)
    if name == "outcome":  # the controller knows only that a job failed whose steps have told of what
        more &= (here != "failed") | before.is_null()
    return more
