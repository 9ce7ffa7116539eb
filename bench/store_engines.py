"""What the embedded store could be made of, measured on the same jobs.

    python -m bench.store_engines                  # 10 million jobs: a quarter of an hour
    python -m bench.store_engines --jobs 200000    # a quick look

Each engine runs in a process of its own (for its peak memory) and does the same: one write of all
jobs that skips what is there already, the same again, a scan of everything into Polars, a scan of 12
columns of one month, lookups of single jobs. In the middle of the write another process tries to read.
The engines that keep a row per job are slow, and get fewer jobs (`--row-jobs`).

The decision that came of it: docs/decisions/0001-embedded-store.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import polars as pl

from bench.job_frames import BEGIN, YEAR, jobs
from forewarn.config import Config
from forewarn.job.columns import SCHEMAS
from forewarn.store import segments
from forewarn.store.opening import open_store

BATCH = 100_000
SCHEMA = SCHEMAS["job"]
IDENTITY = ("cluster", "job_id", "submit", "seen_at", "source")
MONTH = (BEGIN + 31 * 86_400, BEGIN + 61 * 86_400)
TWELVE = (
    *("cluster", "job_id", "submit", "user", "account", "name", "partition"),
    *("cpus_asked", "time_limit", "start", "end", "outcome"),
)
Frames = Iterable[pl.DataFrame]


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


TYPES = {pl.String(): "TEXT", pl.Int64(): "BIGINT", pl.Float64(): "DOUBLE", pl.Boolean(): "BOOLEAN"}
COLUMNS = ", ".join(f'"{name}" {TYPES[dtype]}' for name, dtype in SCHEMA.items())
SELECT_MONTH = f"SELECT {quoted(TWELVE)} FROM job WHERE submit >= {MONTH[0]} AND submit < {MONTH[1]}"


class Engine(ABC):
    """One way to keep jobs in a folder."""

    by_row: ClassVar[bool] = False

    def __init__(self, home: Path) -> None:
        self.home = home

    @abstractmethod
    def write(self, frames: Frames) -> None:
        """Write all records or none, without those that are there already."""

    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def scan(self) -> Frames: ...

    @abstractmethod
    def month(self) -> Frames: ...

    @abstractmethod
    def lookup(self, job_id: str) -> int: ...

    @abstractmethod
    def close(self) -> None: ...


class Embedded(Engine):
    """The store as it is: Parquet segments as blobs in SQLite."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.store = open_store(Config(home=home))

    def write(self, frames: Frames) -> None:
        with self.store.writing() as writer:
            for frame in frames:
                writer.observe("job", frame, file="log")

    def count(self) -> int:
        return self.store.count()

    def scan(self) -> Frames:
        return self.store.scan()

    def month(self) -> Frames:
        return self.store.scan(since=MONTH[0], until=MONTH[1], columns=TWELVE)

    def lookup(self, job_id: str) -> int:
        return self.store.observations("job", {"job_id": job_id}).height

    def close(self) -> None:
        self.store.close()


class Shuffled(Embedded):
    """The same, of a log that is in no order: all segments overlap until they are sorted apart."""

    def write(self, frames: Frames) -> None:
        super().write(self._shuffled(frames))

    def _shuffled(self, frames: Frames) -> Iterator[pl.DataFrame]:
        for number, frame in enumerate(frames):
            anywhere = np.random.default_rng(number).integers(BEGIN, BEGIN + YEAR, frame.height)
            yield frame.with_columns(submit=pl.Series(anywhere))


class Files(Embedded):
    """Parquet segments as files beside an SQLite index: the same code, with another place for the data."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        pack, unpack = segments.packed, segments.unpacked

        def packed(frame: pl.DataFrame) -> bytes:
            path = home / f"{uuid.uuid4()}.parquet"
            with path.open("wb") as file:
                file.write(pack(frame))
                os.fsync(file.fileno())
            return str(path).encode()

        def unpacked(
            data: bytes, kind: str, columns: Iterable[str] | None = None, where: pl.Expr | None = None
        ) -> pl.DataFrame:
            # The name stands for the bytes: of a file, Polars reads only the columns that it needs.
            return unpack(data.decode(), kind, columns, where)  # type: ignore[arg-type]

        segments.packed, segments.unpacked = packed, unpacked


class Rows(Engine):
    """A row per job in SQLite with a write-ahead log, by Python's own module; scans by ADBC."""

    by_row = True

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.connection = sqlite3.connect(home / "rows.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self.connection.execute(f"PRAGMA {pragma}")
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS job ({COLUMNS}, UNIQUE ({quoted(IDENTITY)}))")
        for name in ("submit", "job_id"):
            self.connection.execute(f"CREATE INDEX IF NOT EXISTS job_{name} ON job ({name})")

    def write(self, frames: Frames) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        insert = f"INSERT OR IGNORE INTO job VALUES ({', '.join('?' * len(SCHEMA))})"
        for frame in frames:
            self.connection.executemany(insert, frame.iter_rows())
        self.connection.execute("COMMIT")

    def count(self) -> int:
        (count,) = self.connection.execute("SELECT count(*) FROM job").fetchone()
        return int(count)

    def _fetch(self, query: str) -> Frames:
        import adbc_driver_sqlite.dbapi as adbc

        with adbc.connect(str(self.home / "rows.db")) as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": 65_536})
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                yield pl.DataFrame(batch)

    def scan(self) -> Frames:
        return self._fetch("SELECT * FROM job")

    def month(self) -> Frames:
        return self._fetch(SELECT_MONTH)

    def lookup(self, job_id: str) -> int:
        return len(self.connection.execute("SELECT * FROM job WHERE job_id = ?", (job_id,)).fetchall())

    def close(self) -> None:
        self.connection.close()


class RowsByAdbc(Rows):
    """The same, written by ADBC into a table aside, then what is new into the table."""

    def write(self, frames: Frames) -> None:
        import adbc_driver_sqlite.dbapi as adbc

        with adbc.connect(str(self.home / "rows.db")) as connection, connection.cursor() as cursor:
            for frame in frames:
                cursor.adbc_ingest("aside", frame.to_arrow(), mode="replace")
                cursor.execute("INSERT OR IGNORE INTO job SELECT * FROM aside")
            cursor.execute("DROP TABLE aside")
            connection.commit()


class DuckDb(Engine):
    """A DuckDB file."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        import duckdb

        self.connection = duckdb.connect(str(home / "jobs.duckdb"))
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS job ({COLUMNS})")

    def write(self, frames: Frames) -> None:
        self.connection.execute("BEGIN")
        for frame in frames:
            self.connection.register("batch", frame.to_arrow())
            self.connection.execute(
                f"INSERT INTO job SELECT * FROM batch ANTI JOIN (SELECT {quoted(IDENTITY)} FROM job"
                f" WHERE submit BETWEEN {frame['submit'].min()!r} AND {frame['submit'].max()!r})"
                f" USING ({quoted(IDENTITY)})"
            )
        self.connection.execute("COMMIT")

    def count(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM job").fetchall()[0][0])

    def _fetch(self, query: str) -> Frames:
        batches = self.connection.execute(query).to_arrow_reader(1_000_000)
        assert batches is not None
        for batch in batches:
            yield pl.DataFrame(batch)

    def scan(self) -> Frames:
        return self._fetch("SELECT * FROM job")

    def month(self) -> Frames:
        return self._fetch(SELECT_MONTH)

    def lookup(self, job_id: str) -> int:
        return len(self.connection.execute("SELECT * FROM job WHERE job_id = ?", [job_id]).fetchall())

    def close(self) -> None:
        self.connection.close()


ENGINES: dict[str, type[Engine]] = {
    "segments in SQLite": Embedded,
    "  log in no order": Shuffled,
    "segments as files": Files,
    "DuckDB": DuckDb,
    "rows in SQLite": Rows,
    "rows in SQLite, ADBC": RowsByAdbc,
}


def measure(name: str, source: Path, home: Path, count: int) -> dict[str, Any]:
    """Measure all figures of one engine."""
    engine = ENGINES[name](home)
    paths = sorted(source.iterdir())[: count // BATCH]
    spent = np.zeros(2)
    second = ""

    def frames(at_half: Callable[[], None] = lambda: None) -> Iterator[pl.DataFrame]:
        nonlocal spent
        for number, path in enumerate(paths):
            began = clocks()
            frame = pl.read_parquet(path)
            if number == len(paths) // 2:
                at_half()
            spent += clocks() - began
            yield frame

    def probe() -> None:
        nonlocal second
        command = [sys.executable, "-m", "bench.store_engines", "--probe", name, "--home", str(home)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        second = process.stdout.strip() or process.stderr.strip().splitlines()[-1]

    def seconds(work: Callable[[], Any]) -> tuple[Any, Any]:
        nonlocal spent
        spent, began = np.zeros(2), clocks()
        result = work()
        return clocks() - began - spent, result

    write, _ = seconds(lambda: engine.write(frames(probe)))
    write_memory = memory()
    again, _ = seconds(lambda: engine.write(frames()))
    assert engine.count() == count, engine.count()
    again_memory = memory()
    scan, rows = seconds(lambda: sum(frame.height for frame in engine.scan()))
    assert rows == count, rows
    month, in_month = seconds(lambda: sum(frame.height for frame in engine.month()))
    ids = pl.read_parquet(paths[len(paths) // 2])["job_id"].sample(20, seed=1)
    lookups = [seconds(partial(engine.lookup, job_id)) for job_id in ids]
    assert all(found for _, found in lookups)
    engine.close()
    size = sum(path.stat().st_size for path in home.iterdir())
    return {
        "write": list(count / write),
        "again": list(count / again),
        "scan": list(count / scan),
        "month": list(month),
        "in_month": in_month,
        "lookup": statistics.median(s[0] for s, _ in lookups) * 1e3,
        "bytes": size / count,
        "memory": [write_memory, again_memory, memory()],
        "second": second,
    }


def clocks() -> Any:
    """Seconds on the wall, and of work by this process on any core: the second ones bear a busy machine."""
    return np.array([time.perf_counter(), time.process_time()])


def memory() -> int:
    """Return the peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--row-jobs", type=int, default=2_000_000, help="for the engines that keep rows")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES))
    parser.add_argument("--folder", type=Path, help="where there is room (default: the temporary folder)")
    for hidden in ("--measure", "--probe", "--source", "--home"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.probe:
        print(f"yes, {ENGINES[asked.probe](Path(asked.home)).count()} jobs")
    elif asked.measure:
        print(json.dumps(measure(asked.measure, Path(asked.source), Path(asked.home), asked.jobs)))
    else:
        compare(asked)


def compare(asked: argparse.Namespace) -> None:
    print("Jobs a second, on the wall and (in brackets) by a second of work on one core")
    print(f"{'':22}{'jobs':>11}{'write':>19}{'again':>19}{'scan':>23}{'month':>10}{'lookup':>9}", end="")
    print(f"{'bytes/job':>11}   peak MB: write, again, scans   read beside a write")
    with TemporaryDirectory(dir=asked.folder) as folder:
        source = Path(folder, "source")
        source.mkdir()
        for first in range(0, asked.jobs, BATCH):
            jobs(first, BATCH, asked.jobs).write_parquet(source / f"{first:012}.parquet", compression="lz4")
        for name in asked.engines:
            count = min(asked.jobs, asked.row_jobs) if ENGINES[name].by_row else asked.jobs
            with TemporaryDirectory(dir=asked.folder) as home:
                command = [sys.executable, "-m", "bench.store_engines", "--measure", name]
                process = subprocess.run(
                    [*command, "--jobs", str(count), "--source", str(source), "--home", home],
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if process.returncode:
                print(f"{name:22}failed: {process.stderr.strip().splitlines()[-1]}")
                continue
            found = json.loads(process.stdout)
            rates = [f"{found[step][0]:,.0f} ({found[step][1]:,.0f})" for step in ("write", "again", "scan")]
            print(
                f"{name:22}{count:>11,}{rates[0]:>19}{rates[1]:>19}{rates[2]:>23}"
                f"{found['month'][0]:>8.2f} s{found['lookup']:>6.1f} ms{found['bytes']:>11.0f}   "
                f"{found['memory']!s:28}  {found['second']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
