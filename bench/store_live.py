"""What the embedded store costs those who use it all day: the collector's writes, the API's small reads.

python -m bench.store_live --jobs 1000000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from bench.job_frames import jobs
from forewarn.config import Config
from forewarn.store.base import Store
from forewarn.store.opening import open_store

ENTITIES = 200_000
VALUE = bytes(120)  # the state of one entity


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many the store holds before")
    parser.add_argument("--times", type=int, default=300)
    asked = parser.parse_args()
    with TemporaryDirectory() as home, open_store(Config(home=Path(home))) as store:
        with store.writing() as writer:
            for first in range(0, asked.jobs, 100_000):
                writer.observe("job", jobs(first, 100_000, asked.jobs), file="log")
            writer.put_state("alpha", "entities", ((key, VALUE) for key in range(ENTITIES)))
        print(f"{asked.jobs:,} jobs, {ENTITIES:,} entities; milliseconds: median, 99 of 100 below")
        for name, work in _works(store, asked.jobs).items():
            spent = np.array([_milliseconds(work, n) for n in range(asked.times)])
            print(f"  {name:48}{np.median(spent):9.2f}{np.percentile(spent, 99):9.2f}")


def _works(store: Store, count: int) -> dict[str, Callable[[int], object]]:
    recent = jobs(count - 20_000, 20_000, count)
    live = recent.with_columns(source=pl.lit("live"), reconstructed=pl.lit(False))
    chance = np.random.default_rng(1)

    def sightings(n: int) -> None:
        with store.writing() as writer:
            seen = live.sample(20, seed=n).with_columns(seen_at=pl.lit(2_000_000_000 + n, pl.Int64))
            writer.observe("job", seen)
            writer.set_cursor("live", str(n))

    def put_state(_: int) -> None:
        with store.writing() as writer:
            writer.put_state(
                "alpha", "entities", [(int(key), VALUE) for key in chance.integers(0, ENTITIES, 40)]
            )

    return {
        "write 20 sightings": sightings,
        "write the state of 40 entities": put_state,
        "read the state of 40 entities": lambda _: store.get_state(
            "alpha", "entities", chance.integers(0, ENTITIES, 40).tolist()
        ),
        "observations of one job": lambda n: store.observations("job", {"job_id": recent["job_id"][n]}),
        "one job through the view": lambda n: list(store.scan(job_ids=[recent["job_id"][n]])),
        "count": lambda _: store.count(),
    }


def _milliseconds(work: Callable[[int], object], n: int) -> float:
    began = time.perf_counter()
    work(n)
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()
