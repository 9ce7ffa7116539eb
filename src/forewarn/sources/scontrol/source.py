"""The source of scontrol's records, of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, ClassVar

import polars as pl

from forewarn.errors import BadRow, SourceError
from forewarn.job.columns import SCHEMAS, complete, last_proven_time
from forewarn.sources.base import Batch, Source, open_file
from forewarn.sources.scontrol.fields import job_fields, node_fields, partition_fields
from forewarn.sources.scontrol.text import KINDS, fields, records
from forewarn.sources.slurm.job_outcomes import fill_outcomes
from forewarn.sources.slurm.record_rows import RecordRows
from forewarn.sources.slurm.unit_columns import fix_repeated_hour


class ScontrolSource(Source):
    """The output of `scontrol show job`, `show node` or `show partition`, with `-o` and `-d` or without."""

    name: ClassVar[str] = "scontrol"

    def batches(self) -> Iterator[Batch]:
        """Yield records in the order of the text; a new batch begins where the kind changes."""
        found = False
        with open_file(self.path) as stream:
            for batch in self.read(stream):
                found = True
                yield batch
        if not found:
            raise SourceError(
                f"{self.path}: no job, node or partition in it: this is not what `scontrol show` prints"
            )
        if self.options.cluster is None:
            self.notes.append(
                f"{self.path.name} names no cluster: its records are read as those of {self.cluster!r}; "
                "see --cluster"
            )

    def read(self, stream: IO[bytes], seen_at: int | None = None) -> Iterator[Batch]:
        """Read scontrol's text from a stream; `seen_at` is when it was printed, if that is known."""
        fields_of = {"job": job_fields(self.timezone), "node": node_fields(self.timezone)}
        fields_of["partition"] = partition_fields()
        table, kind, bad = RecordRows({}, {}), "", list[BadRow]()
        for line, text in records(self.text_blocks(stream)):
            record = fields(text)
            record_kind = KINDS.get(next(iter(record), ""))
            if record_kind is None:
                bad.append(self.bad(line, "line", "not a record of a job, node or partition", text))
                continue
            if kind and (record_kind != kind or len(table) + len(bad) >= self.options.batch_rows):
                yield self._batch(kind, table.flush(), bad, seen_at)
                bad = []
            if record_kind != kind:
                kind, table = record_kind, RecordRows(fields_of[record_kind], SCHEMAS[record_kind])
            if wrong := table.add(record, line):
                bad.append(self.bad(line, *wrong, text=text))
        if kind:
            yield self._batch(kind, table.flush(), bad, seen_at)

    def _batch(self, kind: str, frame: pl.DataFrame, bad: list[BadRow], seen_at: int | None) -> Batch:
        frame = frame.with_columns(
            cluster=pl.lit(self.cluster), source=pl.lit(self.name), reconstructed=pl.lit(seen_at is None)
        )
        if kind == "job":
            # scontrol does not show how long a job was suspended, only how long it had run before.
            frame = fill_outcomes(frame.with_columns(suspended=pl.lit(None, pl.Int64)), seen_at)
            frame = fix_repeated_hour(frame, self.timezone)
            # A running job's run time ends at the moment at which it was printed.
            printed = pl.when(pl.col("outcome").is_null()).then(pl.col("start") + pl.col("_run_time"))
            proven = pl.max_horizontal(last_proven_time(), "_considered", printed)
            frame = frame.with_columns(seen_at=proven if seen_at is None else pl.lit(seen_at, pl.Int64))
            return self.job_batch(frame, tuple(bad))
        # A node or partition proves no moment: the time of the file is the best estimate of when it was
        # printed.
        moment = int(self.path.stat().st_mtime) if seen_at is None else seen_at
        return Batch(kind, complete(frame.with_columns(seen_at=pl.lit(moment, pl.Int64)), kind), tuple(bad))
