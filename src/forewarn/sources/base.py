"""The contract of a source.

A source reads one file (later: one service) and yields its records in batches, in the file's order,
in constant memory: nothing is kept from one batch to the next but counters. It knows nothing of the
store. What every source keeps, checked by one contract suite (`tests/sources/contract.py`):

- a batch's frame has exactly the columns of `forewarn.job.columns.SCHEMAS[kind]`, then `line`, the
  number of the line (or, in JSON, of the record) that the row came from;
- missing is null; times are Unix seconds; times that lie ahead of the record (a pending job's
  estimated start, a running job's planned end) are left out;
- a row that cannot become a record is a `BadRow` in the same batch, never an exception and never a
  silent loss: rows plus bad rows is what the file held;
- a file that cannot be read at all (missing, empty, truncated, not of its format) is a `SourceError`
  that names it; where records can be told apart up to the place where it ends, what follows is a bad row;
- what a person should know about the data (labels that look inverted) is in `notes` once it is read.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import IO, ClassVar
from zoneinfo import ZoneInfo

import polars as pl

from forewarn.errors import BadRow, SourceError, UsageError
from forewarn.job.columns import complete, last_proven_time

# Unix seconds of the years 1900 and 2200: what lies outside is no time of a job, but a broken number.
EARLIEST, LATEST = -2_208_988_800, 7_258_118_400
_TIMES = ("submit", "eligible", "start", "end")
# Why a row of accounting is no job's record yet. slurmdbd makes a row for a step, or an end, that it hears of
# before the job itself (22.05 of every job that ends within seconds of its start; with a queue of messages,
# others too): user and group are root's, an array's task has no array, and nothing of the request is in it.
INCOMPLETE = "accounting has only steps or the end of this job so far, not the job itself"


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records of one kind as a frame, and the rows beside them that were no records."""

    kind: str
    frame: pl.DataFrame
    bad: tuple[BadRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What the site says about a file where the file does not say it itself."""

    cluster: str | None = None  # the name to give records that carry none; else one made from the file's name
    timezone: str | None = None  # of times written without a zone; else the file's own, else UTC
    fields: tuple[str, ...] | None = None  # column names of a text without header
    status: str | None = None  # how to read SWF's status field: see `swf.py`
    batch_rows: int = 100_000  # how many records at a time, where they are counted
    block_bytes: int = 8 << 20  # how much text at a time, where it is cut at line ends


class Source(ABC):
    """One file of records. Iterate `batches()` once."""

    name: ClassVar[str]

    def __init__(self, path: Path, options: SourceOptions | None = None) -> None:
        self.path = path
        self.options = options or SourceOptions()
        check_zone(self.options.timezone)
        self.notes: list[str] = []

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """The records, in the file's order."""

    @property
    def timezone(self) -> str:
        """The zone of the cluster's clock as far as it is known: asked by features, not by times."""
        return self.options.timezone or "UTC"

    @property
    def cluster(self) -> str:
        """The cluster of records that name none: the option, else the file's name without endings."""
        return self.options.cluster or cluster_from_path(self.path)

    def bad(self, line: int, field: str, reason: str, text: str = "") -> BadRow:
        """A bad row of this file."""
        return BadRow(str(self.path), line, field, reason, text[:500])

    def text_blocks(self, stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines, each with the number of lines before it; binary data is refused.

        They are valid UTF-8 with plain line ends: what is broken (a name in Latin-1) becomes U+FFFD.
        """
        before = 0
        for block in line_blocks(stream, self.options.block_bytes, file=str(self.path)):
            if before == 0:
                block = block.removeprefix(codecs.BOM_UTF8)
            if b"\0" in block:
                line = before + block[: block.index(b"\0")].count(b"\n") + 1
                raise SourceError(f"{self.path}: binary data in line {line}: not text that {self.name} reads")
            if not block.isascii():
                block = block.decode("utf-8", errors="replace").encode()
            yield before, block.replace(b"\r\n", b"\n") if b"\r" in block else block
            before += block.count(b"\n")

    def job_batch(
        self,
        frame: pl.DataFrame,
        bad: tuple[BadRow, ...] = (),
        text_of: Callable[[int], str] | None = None,
        *,
        may_be_incomplete: bool = False,
    ) -> Batch:
        """A batch of jobs read from a file: schema completed, impossible rows told apart.

        `frame` has any columns of a job and `line`; `text_of` gives a line as the file has it, if it can.
        Rows of accounting may be `INCOMPLETE`: their name, partition and CPUs tell, where it gives all three.
        """
        is_observation = "seen_at" in frame.columns
        frame = complete(frame)
        if not is_observation:
            frame = frame.with_columns(
                seen_at=last_proven_time(), source=pl.lit(self.name), reconstructed=pl.lit(True)
            )
        nothing_asked = pl.col("partition").is_null() & pl.col("cpus_asked").is_null()
        incomplete = pl.lit(may_be_incomplete) & (pl.col("name") == "allocation") & nothing_asked
        checks = (
            ("partition", incomplete, INCOMPLETE),
            ("job_id", pl.col("job_id").is_null(), "missing"),
            ("submit", pl.col("submit").is_null(), "missing"),
            *((name, ~pl.col(name).is_between(EARLIEST, LATEST), "an impossible time") for name in _TIMES),
            # No real log that we have seen (seven archives, recorded Slurm) has one, not by a second.
            ("start", pl.col("start") < pl.col("submit"), "starts before it is submitted"),
            ("end", pl.col("end") < pl.col("start"), "ends before it starts"),
        )
        wrong = pl.coalesce(pl.when(test).then(pl.lit(n, pl.Int8)) for n, (_, test, _) in enumerate(checks))
        marks = frame.select(wrong).to_series()
        if marks.null_count() == frame.height:
            return Batch("job", frame, tuple(sorted(bad, key=lambda row: row.line)))
        facts = frame.select("line", "job_id", "submit", "start", "end").filter(marks.is_not_null())
        found = list(bad)
        for number, (line, job_id, submit, start, end) in zip(
            marks.drop_nulls(), facts.iter_rows(), strict=True
        ):
            field, _, reason = checks[number]
            text = f"job {job_id}, submit {submit}, start {start}, end {end}"
            found.append(self.bad(line, field, reason, text_of(line) if text_of else text))
        good = frame.filter(marks.is_null())
        return Batch("job", good, tuple(sorted(found, key=lambda row: row.line)))


class Lines:
    """The lines of a text by their number in the file; cut only when one is asked for, which is seldom."""

    def __init__(self, text: bytes, first: int) -> None:
        self._text, self._first = text, first

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._text.split(b"\n")

    def __call__(self, number: int) -> str:
        """The line of that number."""
        return self._lines[number - self._first].decode("utf-8", "replace")


def cluster_from_path(path: Path) -> str:
    """The cluster that a file is of where nothing else says it: its name without endings."""
    return path.name.split(".")[0]


@contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file, unpacked if it is gzipped, with every usual trouble as a `SourceError`."""
    try:
        with path.open("rb") as plain:
            head = plain.peek(2)[:2]
            if not head:
                raise SourceError(f"{path}: the file is empty")
            if head == b"\x1f\x8b":
                with gzip.open(plain) as unpacked:
                    yield io.BufferedReader(unpacked, 1 << 20)
            else:
                yield plain
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise SourceError(f"{path}: is a directory, not a file") from None
    except PermissionError:
        raise SourceError(f"{path}: no permission to read it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: the gzip data is broken or cut short ({error})") from None


def line_blocks(stream: IO[bytes], size: int = 8 << 20, *, file: str = "input") -> Iterator[bytes]:
    """The stream in blocks of whole lines of about `size` bytes; `file` is its name in messages."""
    rest = b""
    while chunk := stream.read(size):
        cut = chunk.rfind(b"\n") + 1
        if cut == 0:
            rest += chunk
            if len(rest) > 64 << 20:
                raise SourceError(f"{file}: a line of more than 64 MB: this is not text of job records")
            continue
        yield rest + chunk[:cut]
        rest = chunk[cut:]
    if rest:
        yield rest


def check_zone(name: str | None) -> None:
    """Refuse a name that no zone has."""
    try:
        if name is not None:
            ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"no such time zone: {name!r}; a zone is named like Europe/Berlin") from None


# Scheme to module and class: imported when asked for, so that one source's needs do not slow another.
SOURCES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "swf": ("forewarn.sources.swf", "SwfSource"),
        "sacct": ("forewarn.sources.sacct", "SacctSource"),
        "slurmrestd": ("forewarn.sources.slurmrestd", "SlurmrestdSource"),
        "scontrol": ("forewarn.sources.scontrol", "ScontrolSource"),
        "jobcomp": ("forewarn.sources.jobcomp", "JobcompSource"),
        "nrel": ("forewarn.sources.nrel", "NrelSource"),
        "parquet": ("forewarn.sources.parquet", "ParquetSource"),
        "xalt": ("forewarn.sources.xalt", "XaltSource"),
    }
)

# Those whose records are as Slurm itself keeps them: see `features/slurm_field_differences.py`.
SLURM_SOURCES = frozenset({"sacct", "slurmrestd", "scontrol", "jobcomp"})

# Those that tell of every run of a job that ended: one that was requeued keeps its id and may keep its submit
# time, so it may end several times in a file, and the last end is the job's.
SOURCES_OF_RUNS = frozenset({"jobcomp"})


def open_source(spec: str, options: SourceOptions | None = None) -> Source:
    """The source that a text like ``swf:FILE`` names."""
    scheme, path = parse_source(spec)
    module, name = SOURCES[scheme]
    source: type[Source] = getattr(importlib.import_module(module), name)
    return source(path, options)


def parse_source(spec: str) -> tuple[str, Path]:
    """The scheme and the file that a text like ``swf:FILE`` names."""
    scheme, colon, path = spec.partition(":")
    if not colon or scheme not in SOURCES or not path:
        known = ", ".join(f"{s}:FILE" for s in SOURCES)
        raise UsageError(f"not a source: {spec!r}. A source is one of {known}")
    return scheme, Path(path)
