"""A writer killed at any moment, again and again: what it acknowledged is there, nothing is half there.

python -m tests.store.crash --kills 100
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from forewarn.store.embedded import FILE, open_embedded
from tests.store.samples import many

# Sizes that make it merge small segments, and write large ones, all the time.
SIZES = (1, 3, 20, 20_000, 2, 300)
KEYS = 50


def batch(number: int) -> pl.DataFrame:
    """The jobs of one write."""
    size = SIZES[number % len(SIZES)]
    jobs = many(size, first=number * 1000)
    return jobs.with_columns(
        job_id=pl.format("{}_{}", pl.lit(number), "job_id"), raw_id=pl.lit(number, pl.Int64)
    )


def write(home: Path) -> None:
    """Write for ever, from where the store says; say what is written."""
    with open_embedded(home) as store:
        number = int(store.cursor("batch") or 0)
        while True:
            with store.writing() as writer:
                writer.observe("job", batch(number))
                writer.put_state("c", "s", ((key, b"%d" % number) for key in range(KEYS)))
                writer.set_cursor("batch", str(number + 1))
            number += 1
            print(number, flush=True)


def killed(home: Path, after: float) -> int:
    """Start a writer, kill it some seconds after its first acknowledgement; the last one that it gave."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.store.crash", "--write", str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
    )
    assert writer.stdout is not None
    first = writer.stdout.readline()
    time.sleep(after)
    writer.kill()
    lines = [first, *writer.stdout]
    writer.stdout.close()
    writer.wait()
    return int([line for line in lines if line.endswith("\n")][-1])


def check(home: Path, acknowledged: int) -> int:
    """How many writes are there: all that were acknowledged, perhaps one more, each whole."""
    with closing(sqlite3.connect(home / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with open_embedded(home) as store:
        there = int(store.cursor("batch") or 0)
        assert acknowledged <= there <= acknowledged + 1, (acknowledged, there)
        found = pl.concat(store.scan(columns=["raw_id", "job_id", "user"]))
        sizes = dict(found.group_by("raw_id").len().iter_rows())
        assert sizes == {n: SIZES[n % len(SIZES)] for n in range(there)}
        assert store.count() == found.height == found["job_id"].n_unique()
        assert store.get_state("c", "s", range(KEYS)) == dict.fromkeys(range(KEYS), b"%d" % (there - 1))
    return there


def run(home: Path, kills: int, seed: int = 1) -> int:
    """Kill a writer so many times; how many writes came through."""
    chance = random.Random(seed)
    there = 0
    for _ in range(kills):
        there = check(home, killed(home, after=chance.uniform(0, 0.3)))
    return there


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        write(asked.write)
    with TemporaryDirectory() as folder:
        began = time.monotonic()
        writes = run(Path(folder), asked.kills)
        print(
            f"{asked.kills} kills, {writes} writes, none lost, none torn ({time.monotonic() - began:.0f} s)"
        )
