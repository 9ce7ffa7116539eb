"""Reader of an answer of slurmrestd (or of a Slurm command's `--json`) as batches of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

import polars as pl

from forewarn.errors import BadRow, SourceError
from forewarn.job.columns import SCHEMAS, complete
from forewarn.sources.base import Batch, Source
from forewarn.sources.slurm.job_outcomes import STEPS_OUTCOME, fill_outcomes
from forewarn.sources.slurm.json_stream import JsonReader
from forewarn.sources.slurm.record_rows import RecordRows
from forewarn.sources.slurm.record_values import Fields, moment, text
from forewarn.sources.slurmrestd.nodes import NODE
from forewarn.sources.slurmrestd.partitions import PARTITION
from forewarn.sources.slurmrestd.slurm_jobs import SLURM_JOB, is_slurm_job
from forewarn.sources.slurmrestd.slurmdb_jobs import SLURMDB_JOB, is_slurmdb_job

_KINDS = {"jobs": "job", "nodes": "node", "partitions": "partition"}
# Rows are Python objects until they are a frame: few enough that their memory does not matter.
_MOST_ROWS = 10_000
_FOOT_BYTES = 1 << 16
_NOTHING_FOUND = 9003
_FOOT = re.compile(r"\]\s*,(?=\s*\")")


def answer_batches(source: Source, stream: IO[bytes], seen_at: int | None = None) -> Iterator[Batch]:
    """Yield the jobs, nodes or partitions of an answer, in its order.

    `seen_at` is when a live answer was received. It is used for answers of the controller without a time:
    records of the database are about the past, and nobody observed them at a known time.
    """
    reader = JsonReader(stream, str(source.path), source.options.block_bytes)
    if reader.peek() != "{":
        raise SourceError(f"{source.path}: not an answer of slurmrestd: it does not begin with an object")
    members: dict[str, Any] = {}
    records = 0
    for key in reader.members():
        if key not in _KINDS:
            members[key] = reader.value()
            continue
        members.setdefault(key, None)
        for batch in _Records(source, _KINDS[key], reader, stream, members, seen_at).batches():
            records += batch.frame.height + len(batch.bad)
            yield batch
    reader.finish()
    listed = members.get("errors")
    errors = "; ".join(map(error_words, filter(is_trouble, listed))) if isinstance(listed, list) else ""
    if not _KINDS.keys() & members:
        holds = ", ".join(members) or "nothing"
        raise SourceError(
            f"{source.path}: not an answer with jobs, nodes or partitions: it holds {holds}"
            + (f"; Slurm says: {errors}" if errors else "")
        )
    if errors and records == 0:
        raise SourceError(f"{source.path}: an answer without records, Slurm says: {errors}")
    if errors:
        source.notes.append(f"{source.path.name}: may be incomplete, Slurm says: {errors}")


def is_trouble(error: Any) -> bool:
    """Check for a real error: up to v0.0.38 the database lists "nothing found" as one in an empty answer."""
    return not isinstance(error, dict) or error.get("error_number") != _NOTHING_FOUND


def error_words(error: Any) -> str:
    """Format an error of Slurm.

    >>> error_words({"description": "Unknown flag", "error_number": 9207, "error": "invalid flag"})
    'Unknown flag: invalid flag (error 9207)'
    """
    if not isinstance(error, dict):
        return str(error)
    words = ": ".join(str(error[k]) for k in ("description", "error") if error.get(k)) or "no reason given"
    code = error.get("error_number") or error.get("error_code")
    return f"{words} (error {code})" if code else words


class _Records:
    """Reader of one array of an answer."""

    def __init__(
        self,
        source: Source,
        kind: str,
        reader: JsonReader,
        stream: IO[bytes],
        members: dict[str, Any],
        received_at: int | None,
    ) -> None:
        self._source, self._kind, self._reader, self._stream, self._members = (
            source,
            kind,
            reader,
            stream,
            members,
        )
        self._received_at, self._of_accounting = received_at, False
        self._seen_at: int | None = None

    def batches(self) -> Iterator[Batch]:
        elements = enumerate(self._reader.elements(), 1)
        first = next(elements, None)
        if first is None:
            yield Batch(self._kind, complete(pl.DataFrame(schema={"line": pl.Int64}), self._kind))
            return
        fields = self._fields(first[1])
        self._of_accounting = fields is SLURMDB_JOB
        if not self._of_accounting:  # the database's answers have no time, and its jobs name their cluster
            if "last_update" not in self._members:
                self._members |= _foot(self._stream)
            self._seen_at = moment("last_update")(self._members) or self._received_at
        table, bad = RecordRows(fields, {**SCHEMAS[self._kind], STEPS_OUTCOME: pl.String()}), list[BadRow]()
        self._add(table, bad, *first)
        most = min(self._source.options.batch_rows, _MOST_ROWS)
        for line, record in elements:
            if len(table) + len(bad) >= most:
                yield self._batch(table.flush(), bad)
                bad = []
            self._add(table, bad, line, record)
        yield self._batch(table.flush(), bad)

    def _fields(self, record: Any) -> Fields:
        if self._kind != "job":
            return NODE if self._kind == "node" else PARTITION
        if isinstance(record, dict) and is_slurm_job(record):
            return SLURM_JOB
        if isinstance(record, dict) and is_slurmdb_job(record):
            return SLURMDB_JOB
        keys = ", ".join(list(record)[:5]) if isinstance(record, dict) else repr(record)[:80]
        raise SourceError(
            f"{self._source.path}: its jobs have no submit time, so they are neither the controller's nor "
            f"the database's: the first one holds {keys}. Save /slurm/vX/jobs or /slurmdb/vX/jobs instead"
        )

    def _add(self, table: RecordRows, bad: list[BadRow], line: int, record: Any) -> None:
        wrong = table.add(record, line)
        if wrong is not None:
            bad.append(self._source.bad(line, *wrong, text=json.dumps(record)[:500]))

    def _batch(self, frame: pl.DataFrame, bad: list[BadRow]) -> Batch:
        frame = frame.with_columns(pl.col("cluster").fill_null(self._cluster()))
        seen_at = self._seen_at
        if self._kind == "job":
            frame = fill_outcomes(frame, seen_at)
            if seen_at is None:
                return self._source.job_batch(frame, tuple(bad), may_be_incomplete=self._of_accounting)
        # Up to v0.0.38 an answer has no time, and a node or partition proves no moment: the time of the file
        # is the best estimate.
        frame = frame.with_columns(
            seen_at=pl.lit(int(self._source.path.stat().st_mtime) if seen_at is None else seen_at, pl.Int64),
            source=pl.lit(self._source.name),
            reconstructed=pl.lit(seen_at is None),
        )
        if self._kind == "job":
            return self._source.job_batch(frame, tuple(bad))
        nameless = frame.filter(pl.col("name").is_null())["line"]
        bad += [self._source.bad(line, "name", "missing") for line in nameless]
        return Batch(self._kind, complete(frame, self._kind).drop_nulls("name"), tuple(bad))

    def _cluster(self) -> str:
        named = text("meta.slurm.cluster")(self._members)
        return self._source.options.cluster or named or self._source.cluster


def _foot(stream: IO[bytes]) -> dict[str, Any]:
    """Read ahead the members after the records of an answer; none where the stream cannot seek.

    Since v0.0.39 the time of the answer and the cluster's name follow the records.
    """
    if not stream.seekable():
        return {}
    position = stream.tell()
    stream.seek(max(0, position - _FOOT_BYTES))  # a small answer has already been read
    tail = b""
    while chunk := stream.read(1 << 20):
        tail = (tail + chunk)[-_FOOT_BYTES:]
    stream.seek(position)
    foot = tail.decode("utf-8", "replace")
    # The members after the records begin after a `]`; only from the right one do they parse up to the end.
    for match in _FOOT.finditer(foot):
        try:
            members: dict[str, Any] = json.loads("{" + foot[match.end() :])
        except ValueError:
            continue
        return members
    return {}
