"""NREL's Eagle jobs, as published (https://data.openei.org/submissions/5860): csv, json or Parquet.

Facts that the data set does not document, taken from its first 1,000 jobs:

- Times have no zone. Read as UTC, the text of the csv and the milliseconds of the json are the same moments,
  and every end minus start is `run_time`; so they are read as UTC unless the site names a zone (then that of
  all three formats).
- `mem_req` counts the whole job, in megabytes: 552,000 on 3 nodes and 184,000 on one of Eagle's 192 GB nodes,
  20,160,000 on 28 nodes of 768 GB. 0 (988 of 1,000) is Slurm's "all of the node".
- Tasks of an array share one `job_id` and submit time. They are numbered in the order of the file, or they
  would be one job that contradicts itself; their real index is unknown.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import polars as pl

from forewarn.errors import BadRow, SourceError
from forewarn.job.outcomes import outcome_of_state
from forewarn.sources.base import EARLIEST, LATEST, Batch, Source, SourceOptions, line_blocks, open_file
from forewarn.sources.parquet import parquet_frames, parquet_table
from forewarn.sources.slurm.json_stream import JsonReader
from forewarn.sources.slurm.unit_columns import fix_repeated_hour

_TEXTS = ("user", "account", "partition", "qos", "state", "name", "work_dir", "submit_line")
_NUMBERS = ("job_id", "wallclock_req", "nodes_req", "processors_req", "gpus_req", "mem_req")
_TIMES = ("submit_time", "start_time", "end_time")
_COLUMNS = (*_TEXTS, *_NUMBERS, *_TIMES)
_NEEDED = ("job_id", "submit_time", "state")
_ABSENT = ("", "nan", "NaN", "NaT", "None", "null")
_MOST_OBJECTS = 10_000  # rows of a json file that are Python objects at one time
_MB = 1 << 20
_MOST = 1e12  # of anything, megabytes too

Part = tuple[pl.DataFrame, list[BadRow]]  # rows with `line` and any of _COLUMNS, of any type


class NrelSource(Source):
    """A file of NREL's data set."""

    name: ClassVar[str] = "nrel"

    def __init__(self, path: Path, options: SourceOptions | None = None) -> None:
        super().__init__(path, options)
        # The rows so far of each job id among rows with this submit time, which may continue in the next
        # batch.
        self._submit: int | None = None
        self._counts: dict[int, int] = {}
        self._tasks = 0

    def batches(self) -> Iterator[Batch]:
        """Yield jobs in the order of the file."""
        with open_file(self.path) as stream:
            assert isinstance(stream, io.BufferedReader)
            head = stream.peek(64).lstrip()
            if head.startswith(b"PAR1"):
                parts = self._parquet()
            elif head.startswith(b"["):
                parts = self._json(stream)
            else:
                parts = self._csv(stream)
            for frame, bad in parts:
                typed = self._typed(frame, bad)
                jobs = fix_repeated_hour(self._jobs(self._numbered(typed)), self.timezone)
                yield self.job_batch(jobs, tuple(bad))
        if self._tasks:
            self.notes.append(
                f"{self.path.name}: {self._tasks:,} rows share job id and submit time with one before them: "
                "array tasks without their index, numbered in the order of the file"
            )

    # --- the three formats ---------------------------------------------------------------------

    def _parquet(self) -> Iterator[Part]:
        table = parquet_table(self.path)
        found = table.collect_schema().names()
        self._check(found)
        chosen = table.select(name for name in found if name in _COLUMNS)
        place = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        for before, frame in parquet_frames(self.path, chosen, self.options.batch_rows):
            yield frame.with_columns(line=place + before), []

    def _json(self, stream: io.BufferedReader) -> Iterator[Part]:
        reader = JsonReader(stream, str(self.path), self.options.block_bytes)
        most = min(self.options.batch_rows, _MOST_OBJECTS)
        rows: list[dict[str, object]] = []
        lines: list[int] = []
        bad: list[BadRow] = []
        for line, row in enumerate(reader.elements(), 1):
            if line == 1:
                self._check(list(row) if isinstance(row, dict) else [])
            if not isinstance(row, dict):
                bad.append(self.bad(line, "record", "not an object", repr(row)))
                continue
            rows.append(row)
            lines.append(line)
            if len(rows) == most:
                yield _texts(rows, lines), bad
                rows, lines, bad = [], [], []
        reader.finish()
        yield _texts(rows, lines), bad

    def _csv(self, stream: io.BufferedReader) -> Iterator[Part]:
        names: list[str] = []
        line = 0
        for block in line_blocks(stream, self.options.block_bytes):
            if b"\0" in block:
                raise SourceError(f"{self.path}: binary data near line {line + 1}, not NREL's csv")
            while not names and block:
                head, _, block = block.partition(b"\n")
                line += 1
                if head.strip():
                    names = [name.strip(' "\r\ufeff') for name in head.decode("utf-8", "replace").split(",")]
                    self._check(names)
            if block:
                regular = _regular(block, names, line)
                yield (regular, []) if regular is not None else self._cells(block, names, line)
            line += block.count(b"\n")
        if not names:
            raise SourceError(f"{self.path}: nothing but blank lines")

    def _cells(self, block: bytes, names: list[str], before: int) -> Part:
        """Split the lines into columns of text; separate those with too few or too many."""
        lines = (
            pl.Series("text", block.decode("utf-8", errors="replace").split("\n"), dtype=pl.String)
            .to_frame()
            .with_row_index("line", offset=before + 1)
            .select(pl.col("line").cast(pl.Int64), pl.col("text").str.strip_chars_end("\r"))
            .filter(pl.col("text").str.strip_chars() != "")
        )
        commas = pl.col("text").str.replace_all('"[^"]*"', "").str.count_matches(",", literal=True)
        counted = lines.with_columns(_columns=commas + 1)
        wrong = counted.filter(pl.col("_columns") != len(names))
        bad = [
            self.bad(line, "line", f"{columns} columns instead of {len(names)}", text)
            for line, text, columns in wrong.iter_rows()
        ]
        good = counted.filter(pl.col("_columns") == len(names)) if bad else counted
        cells = (
            pl.read_csv(
                "\n".join(good["text"]).encode(), has_header=False, new_columns=names, infer_schema=False
            )
            if good.height
            else pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        )
        return cells.select(good["line"], *(name for name in names if name in _COLUMNS)), bad

    def _check(self, found: Sequence[str]) -> None:
        twice = [name for name in _COLUMNS if found.count(name) > 1]
        if twice:
            raise SourceError(f"{self.path}: two columns {twice[0]!r}")
        for name in _NEEDED:
            if name not in found:
                raise SourceError(
                    f"{self.path}: no column {name!r}, so not NREL's Eagle data (its columns are "
                    f"{', '.join(found)[:200] or 'none'})"
                )

    # --- common columns ------------------------------------------------------------------------

    def _typed(self, frame: pl.DataFrame, bad: list[BadRow]) -> pl.DataFrame:
        """Convert to texts, numbers and seconds; rows with a value that cannot be converted are bad."""
        frame = frame.with_columns(
            pl.col(name).str.strip_chars().replace(_ABSENT, None)
            for name, dtype in frame.schema.items()
            if dtype == pl.String
        )
        typed = frame.select(
            "line",
            *(self._column(frame, name, pl.String()).alias(name) for name in _TEXTS),
            *(_counted(self._column(frame, name, pl.Float64())).alias(name) for name in _NUMBERS),
            *(self._moment(frame, name).alias(name) for name in _TIMES),
        )
        lost = {
            name: frame[name].is_not_null() & typed[name].is_null()
            for name in (*_NUMBERS, *_TIMES)
            if name in frame.columns
        }
        wrong = [name for name, test in lost.items() if test.any()]
        if not wrong:
            return typed
        field = pl.select(pl.coalesce(pl.when(lost[n]).then(pl.lit(n)) for n in wrong)).to_series()
        rejected = frame.with_columns(_field=field).filter(field.is_not_null())
        for row in rejected.iter_rows(named=True):
            name = row["_field"]
            what = "time" if name in _TIMES else "number"
            bad.append(self.bad(row["line"], name, f"not a {what}: {row[name]!r}"))
        return typed.filter(field.is_null())

    def _column(self, frame: pl.DataFrame, name: str, dtype: pl.DataType) -> pl.Expr:
        if name not in frame.columns:
            return pl.lit(None, dtype)
        return pl.col(name).cast(dtype, strict=False)

    def _moment(self, frame: pl.DataFrame, name: str) -> pl.Expr:
        if name not in frame.columns:
            return pl.lit(None, pl.Int64)
        dtype, column = frame.schema[name], pl.col(name)
        if dtype == pl.String:
            wall = pl.coalesce(
                _from_ms(column),
                column.str.replace("T", " ", literal=True).str.to_datetime(
                    "%Y-%m-%d %H:%M:%S%.f", time_unit="ms", strict=False
                ),
            )
        elif dtype.is_numeric():
            wall = _from_ms(column)
        else:
            wall = column.cast(pl.Datetime("ms"), strict=False)
        zoned = wall.dt.replace_time_zone(self.timezone, ambiguous="earliest", non_existent="null")
        return zoned.dt.epoch("s")

    def _numbered(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add `task`: the number of earlier rows with the same job id and submit time."""
        frame = frame.with_columns(_run=pl.col("submit_time").rle_id(), task=pl.lit(0, pl.Int64))
        pair = pl.struct("_run", "job_id")
        repeated = frame.filter(pair.is_duplicated())  # they are few, and counting within groups is slow
        if repeated.height:
            counted = repeated.select("line", task=pl.int_range(pl.len(), dtype=pl.Int64).over(pair))
            frame = frame.update(counted, on="line")
        if self._counts:
            before = pl.col("job_id").replace_strict(self._counts, default=0, return_dtype=pl.Int64)
            continues = (pl.col("_run") == 0) & (pl.col("submit_time") == self._submit)
            frame = frame.with_columns(pl.col("task") + pl.when(continues).then(before).otherwise(0))
        self._tasks += frame.select((pl.col("task") > 0).sum()).item()
        if frame.height:
            last = frame.filter(pl.col("_run") == pl.col("_run").max())
            counts = last.group_by("job_id").agg(pl.col("task").max() + 1)
            same_run = last["_run"][0] == 0 and last["submit_time"][0] == self._submit
            self._counts = (self._counts if same_run else {}) | dict(counts.iter_rows())
            self._submit = last["submit_time"][0]
        return frame.drop("_run")

    def _jobs(self, frame: pl.DataFrame) -> pl.DataFrame:
        def whole(name: str) -> pl.Expr:
            return pl.col(name).round().cast(pl.Int64)

        # CANCELLED by 1234
        word = pl.col("state").str.split(" ").list.first()
        states = frame.select(word.unique()).to_series().drop_nulls()
        outcomes = {state: str(found) for state in states if (found := outcome_of_state(state)) is not None}
        outcome = word.replace_strict(outcomes, default=None, return_dtype=pl.String)
        number = whole("job_id").cast(pl.String)
        is_task = pl.col("task") > 0
        return frame.select(
            *("line", "user", "account", "name", "work_dir", "submit_line", "partition", "qos"),
            # Names are pseudonyms (name00005115): their digits are no run numbers, so they are not
            # normalised; the program's field is used as it is.
            application=pl.col("name"),
            cluster=pl.lit(self.cluster),
            job_id=pl.when(is_task).then(pl.format("{}_{}", number, "task")).otherwise(number),
            array_job_id=pl.when(is_task).then(whole("job_id")),
            array_task_id=pl.when(is_task).then("task"),
            submit=pl.col("submit_time"),
            start=pl.col("start_time"),
            end=pl.when(outcome.is_not_null()).then("end_time"),
            time_limit=whole("wallclock_req"),
            nodes_asked=whole("nodes_req"),
            cpus_asked=whole("processors_req"),
            gpus_asked=whole("gpus_req"),
            memory_asked=(pl.col("mem_req") * _MB / pl.max_horizontal("nodes_req", 1)).cast(pl.Int64),
            memory_per=pl.when(pl.col("mem_req").is_not_null()).then(pl.lit("node")),
            state=word,
            outcome=outcome,
            cancelled_by=pl.col("state").str.extract(r" by (\S+)"),
        )


def _counted(number: pl.Expr) -> pl.Expr:
    """Set impossible counts to null: negative, infinite, not a number."""
    return pl.when(number.is_between(0, _MOST)).then(number)


def _from_ms(number: pl.Expr) -> pl.Expr:
    """Convert milliseconds to a time, null where it is out of range."""
    whole = number.cast(pl.Int64, strict=False)
    return pl.from_epoch(pl.when(whole.is_between(EARLIEST * 1000, LATEST * 1000)).then(whole), "ms")


def _regular(block: bytes, names: list[str], before: int) -> pl.DataFrame | None:
    """Read all lines into columns at once, if all are regular."""
    rows = block.count(b"\n") + (not block.endswith(b"\n"))
    # The number of commas that rows and columns need: where a row has too few, another has too many, and
    # Polars refuses that one.
    if b'"' in block or block.count(b",") != rows * (len(names) - 1):
        return None
    types = [pl.Float64() if name in _NUMBERS else pl.String() for name in names]
    try:
        cells = pl.read_csv(block, has_header=False, schema_overrides=types, new_columns=names)
    except pl.exceptions.PolarsError:
        return None
    place = pl.int_range(before + 1, before + 1 + pl.len(), dtype=pl.Int64)
    return (
        cells.select(*(name for name in names if name in _COLUMNS), line=place)
        if cells.height == rows
        else None
    )


def _texts(rows: list[dict[str, object]], lines: list[int]) -> pl.DataFrame:
    """Convert rows of a json file to columns of text, like those of a csv."""
    columns = {
        name: pl.Series([None if row.get(name) is None else str(row[name]) for row in rows], dtype=pl.String)
        for name in _COLUMNS
    }
    return pl.DataFrame({"line": pl.Series(lines, dtype=pl.Int64)} | columns)
