"""Jobs in Parquet with Forewarn's own columns, as `forewarn simulate` and exports write them.

Any column of an observed job may be present; its key (`job_id`, `submit`) must be; `cluster` may come from an
option. A row with `seen_at` is an observation; a row without is reconstructed as from any other file. The
zone of the cluster's clock is in the file's metadata, under `forewarn.timezone`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import polars as pl

from forewarn.errors import BadRow, SourceError, UsageError
from forewarn.job.columns import SCHEMAS
from forewarn.job.outcomes import Outcome
from forewarn.sources.base import Batch, Source, check_zone, open_file

ZONE = "forewarn.timezone"  # the key of the file's metadata that names the cluster's zone
_KEYS = ("job_id", "submit")
_MAGIC = b"PAR1"


class ParquetSource(Source):
    """A Parquet file of jobs."""

    name: ClassVar[str] = "parquet"
    _zone: str | None = None  # of the file, once it is read

    @property
    def timezone(self) -> str:
        """The configured zone, else the file's, else UTC."""
        return self.options.timezone or self._zone or "UTC"

    def batches(self) -> Iterator[Batch]:
        """Yield jobs in the order of the file."""
        table = parquet_table(self.path)
        self._zone = self._known_zone(pl.read_parquet_metadata(self.path).get(ZONE))
        columns = self._columns(table.collect_schema())
        place = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        for before, frame in parquet_frames(self.path, table.select(columns), self.options.batch_rows):
            yield self._batch(frame.with_columns(line=place + before))

    def _known_zone(self, name: str | None) -> str | None:
        try:
            check_zone(name)
        except UsageError:
            self.notes.append(
                f"{self.path.name}: {ZONE} is {name!r}, which is not a time zone; set --timezone"
            )
            return None
        return name

    def _columns(self, found: pl.Schema) -> list[pl.Expr]:
        """Select the columns of the schema in its types; `SourceError` names one that is wrong."""
        missing = [name for name in _KEYS if name not in found]
        if missing:
            raise SourceError(
                f"{self.path}: no column {missing[0]!r}: not Parquet of Forewarn's own schema "
                f"(its columns are {', '.join(found)[:200]})"
            )
        schema = SCHEMAS["job"]
        for name, dtype in found.items():
            if name in schema and not _fits(dtype, schema[name]):
                raise SourceError(
                    f"{self.path}: column {name!r} is {dtype}, where a job has {schema[name]}; cast it and "
                    "write the file again"
                )
        return [pl.col(name).cast(schema[name]) for name in found if name in schema]

    def _batch(self, frame: pl.DataFrame) -> Batch:
        cluster = pl.col("cluster") if "cluster" in frame.columns else pl.lit(None, pl.String)
        frame = frame.with_columns(cluster=cluster.fill_null(self.cluster))
        wrong = {"outcome": ~pl.col("outcome").is_in(list(Outcome)), "seen_at": pl.col("seen_at").is_null()}
        bad: list[BadRow] = []
        for name, test in wrong.items():
            if name in frame.columns:
                rejected = frame.filter(test).select("line", name)
                bad += [self.bad(line, name, f"cannot be {value!r}") for line, value in rejected.iter_rows()]
                frame = frame.filter(~test | test.is_null())
        if "seen_at" in frame.columns:
            for name, value in (("source", pl.lit(self.name)), ("reconstructed", pl.lit(False))):
                column = pl.col(name).fill_null(value) if name in frame.columns else value
                frame = frame.with_columns(column.alias(name))
        return self.job_batch(frame, tuple(bad))


def _fits(found: pl.DataType, expected: pl.DataType) -> bool:
    """Check whether every value of one type is one of the other: an integer may become a float."""
    if expected.is_integer():
        return found.is_integer() or found == pl.Null
    if expected.is_float():
        return found.is_numeric() or found == pl.Null
    if expected == pl.String:
        return found in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    return found in (expected, pl.Null)


def parquet_table(path: Path) -> pl.LazyFrame:
    """Open a Parquet file as a lazy frame; `SourceError` where it is none."""
    with open_file(path) as stream:
        # It cannot be a pipe: a Parquet file is read from its end.
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise SourceError(f"{path}: not a Parquet file")
    table = pl.scan_parquet(path, glob=False)
    try:
        table.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(
            f"{path}: a broken Parquet file, perhaps cut short ({_first_line(error)})"
        ) from None
    return table


def parquet_frames(path: Path, table: pl.LazyFrame, rows: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield slices of a table, each with the number of rows before it.

    A slice reads only the pages that it touches: 4 million rows in one row group peak at 181 MB, where
    Polars' own `collect_batches` holds 557 MB, in the same time.
    """
    try:
        total = table.select(pl.len()).collect().item()
        for before in range(0, max(total, 1), rows):  # an empty table yields one empty slice
            yield before, table.slice(before, rows).collect()
    except pl.exceptions.PolarsError as error:
        raise SourceError(f"{path}: cannot be read ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
