"""Short observations, and the views of the store computed a second time in plain Python, to compare with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from forewarn.job.columns import JOB_SCHEMA, KEYS, complete

Row = dict[str, Any]
AS_OF = list(JOB_SCHEMA)[: list(JOB_SCHEMA).index("eligible")]


def row(job_id: str = "1", submit: int = 100, seen_at: int = 100, **fields: Any) -> Row:
    """One observation of a job, seen live unless a field overrides it."""
    defaults = {"cluster": "c", "source": "live", "reconstructed": False}
    return {**defaults, "job_id": job_id, "submit": submit, "seen_at": seen_at, **fields}


def frame(*rows: Row, kind: str = "job") -> pl.DataFrame:
    """Rows as a frame, `line` being their place."""
    return complete(
        pl.DataFrame([{"line": n, **r} for n, r in enumerate(rows, 1)], infer_schema_length=None), kind
    )


def many(count: int, *, first: int = 0, cluster: str = "c", step: int = 1) -> pl.DataFrame:
    """Jobs of a log, in order of submit."""
    number = pl.int_range(first, first + count, eager=True).alias("n").to_frame()
    return complete(
        number.select(
            cluster=pl.lit(cluster),
            job_id=pl.col("n").cast(pl.String),
            submit=pl.col("n") * step,
            user=pl.format("u{}", pl.col("n") % 7),
            cpus_asked=pl.col("n") % 64,
            start=pl.col("n") * step + 10,
            end=pl.col("n") * step + 20,
            outcome=pl.when(pl.col("n") % 5 == 0).then(pl.lit("failed")).otherwise(pl.lit("completed")),
            seen_at=pl.col("n") * step + 20,
            source=pl.lit("log"),
            reconstructed=pl.lit(True),
        )
    )


def seen(rows: Iterable[Row], view: str = "now", known_delay: int = 0) -> list[Row]:
    """The jobs through a view: what a store must give for rows in this order of writing."""
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    for observation in rows:
        of_key = by_key.setdefault(tuple(observation[k] for k in KEYS["job"]), [])
        if observation not in of_key:
            of_key.append(observation)
    found = []
    for observed in by_key.values():
        observed.sort(key=lambda r: r["seen_at"])
        job = _latest(observed)
        if view != "now":
            moment = job["submit"] if view == "submit" or job["start"] is None else job["start"]
            by_then = [r for r in observed if r["seen_at"] <= moment] or observed[:1]
            job |= {name: value for name, value in _latest(by_then).items() if name in AS_OF}
        live = [r["seen_at"] for r in observed if r.get("outcome") is not None and not r["reconstructed"]]
        end = None if job["end"] is None else job["end"] + known_delay
        found.append(job | {"known_at": None if job["outcome"] is None else min(live, default=end)})
    return sorted(found, key=lambda job: (job["submit"], job["cluster"], job["job_id"]))


def _latest(observed: list[Row]) -> Row:
    latest = {
        name: next((r[name] for r in reversed(observed) if r.get(name) is not None), None)
        for name in JOB_SCHEMA
    }
    if latest["outcome"] == "failed":
        exact = ("out_of_memory", "timeout", "node_fail")
        outcomes = [r["outcome"] for r in observed if r.get("outcome") in exact]
        latest["outcome"] = outcomes[-1] if outcomes else "failed"
    return latest
