"""The contract of a source, and what its implementations share.

A source reads the job records of one file and yields them in batches.

Who may call it, and when: `open_source` (or a class in `SOURCES`) builds one for a path; the constructor
reads nothing. `batches()` is iterated once, by one thread; `notes` is complete, and `timezone` final, when it
has ended.

What every source keeps (`tests/sources/contract.py` checks each of these):

- batches come in the file's order and in constant memory: only counters are kept from one to the next. The
  sizes of blocks and batches do not change the result, and reading twice gives the same;
- the frame of a batch has exactly the columns of `forewarn.job.columns.SCHEMAS[kind]`, then `line`, the
  number of the line (in JSON, of the record) that the row came from;
- missing is null, never an empty text or a negative number; times are Unix seconds; keys are never missing;
- no time lies in the future of the record: an estimated start of a pending job and a planned end of a running
  one are left out, and only a job with an outcome has an end;
- a row that cannot become a record is a `BadRow` in the same batch, never an exception and never a silent
  loss: rows and bad rows together are what the file held;
- what a person should know about the data (such as labels that look inverted) is in `notes`, which name the
  file.

What it raises: `SourceError` that names the file, where it cannot be read at all (missing, empty, truncated,
not of its format; where records before the truncation are whole, the rest is one bad row); `UsageError` for
options that make no sense. A source knows nothing of the store.
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

# Unix seconds of the years 1900 and 2200: a value outside is not the time of a job, but a broken number.
EARLIEST, LATEST = -2_208_988_800, 7_258_118_400
_TIMES = ("submit", "eligible", "start", "end")
# The reason why a row of accounting is not a job's record yet. slurmdbd adds a row for a step, or an end,
# that reaches it before the job itself (22.05 for every job that ends within seconds of its start; other
# versions when messages queue): user and group are root's, an array task has no array, and the request is
# missing.
INCOMPLETE = "accounting has only steps or the end of this job so far, not the job itself"


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records of one kind as a frame, and the rows among them that could not be read."""

    kind: str
    frame: pl.DataFrame
    bad: tuple[BadRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a site can state about a file that does not contain it."""

    cluster: str | None = None  # for records that name none; else taken from the file's name
    timezone: str | None = None  # of times written without a zone; else the file's own, else UTC
    fields: tuple[str, ...] | None = None  # column names of a text without header
    status: str | None = None  # how to read SWF's status field: see `swf.py`
    batch_rows: int = 100_000  # records per batch, where records are counted
    block_bytes: int = 8 << 20  # text per block, where it is cut at line ends


class Source(ABC):
    """One file of records; the module describes the contract. Iterate `batches()` once."""

    name: ClassVar[str]

    def __init__(self, path: Path, options: SourceOptions | None = None) -> None:
        self.path = path
        self.options = options or SourceOptions()
        check_zone(self.options.timezone)
        self.notes: list[str] = []

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """Yield the records in the file's order; see the contract in this module."""

    @property
    def timezone(self) -> str:
        """The time zone of the cluster, as far as it is known; features use it, times of records do not."""
        return self.options.timezone or "UTC"

    @property
    def cluster(self) -> str:
        """The cluster of records that name none: the option, else the file's name without endings."""
        return self.options.cluster or cluster_from_path(self.path)

    def bad(self, line: int, field: str, reason: str, text: str = "") -> BadRow:
        """Build a bad row of this file."""
        return BadRow(str(self.path), line, field, reason, text[:500])

    def text_blocks(self, stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of whole lines, each with the number of lines before it; raise on binary data.

        Blocks are valid UTF-8 with plain line ends: broken characters (a name in Latin-1) become U+FFFD.
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
        """Build a batch of jobs: complete the schema, and separate rows that are impossible.

        `frame` has any columns of a job and `line`; `text_of` returns a line of the file by its number. Rows
        of accounting may be `INCOMPLETE`, which their name, partition and CPUs show, where the source has all
        three.
        """
        is_observation = "seen_at" in frame.columns
        frame = complete(frame)
        if not is_observation:
            frame = frame.with_columns(
                seen_at=last_proven_time(), source=pl.lit(self.name), reconstructed=pl.lit(True)
            )
        nothing_requested = pl.col("partition").is_null() & pl.col("cpus_asked").is_null()
        incomplete = pl.lit(may_be_incomplete) & (pl.col("name") == "allocation") & nothing_requested
        checks = (
            ("partition", incomplete, INCOMPLETE),
            ("job_id", pl.col("job_id").is_null(), "missing"),
            ("submit", pl.col("submit").is_null(), "missing"),
            *((name, ~pl.col(name).is_between(EARLIEST, LATEST), "an impossible time") for name in _TIMES),
            # No real log that we know (seven archives, recorded Slurm) has one, not by a second.
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
    """The lines of a text by their number in the file; split only when one is needed, which is rare."""

    def __init__(self, text: bytes, first: int) -> None:
        self._text, self._first = text, first

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._text.split(b"\n")

    def __call__(self, number: int) -> str:
        """Return the line of that number."""
        return self._lines[number - self._first].decode("utf-8", "replace")


def cluster_from_path(path: Path) -> str:
    """Take the cluster's name from that of a file, without its endings, where nothing else names it."""
    return path.name.split(".")[0]


@contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file of bytes, decompressed if it is gzipped; every usual error is a `SourceError`."""
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
    """Split a stream into blocks of whole lines of about `size` bytes; `file` is its name in messages."""
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
    """Raise `UsageError` for a name that is no time zone's."""
    try:
        if name is not None:
            ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"no such time zone: {name!r}; write one like Europe/Berlin") from None


# Scheme to module and class: imported on demand, so that the imports of one source do not slow another.
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

# Sources whose records are as Slurm itself keeps them: see `features/slurm_field_differences.py`.
SLURM_SOURCES = frozenset({"sacct", "slurmrestd", "scontrol", "jobcomp"})

# Sources with a record of every run of a job that ended: a requeued job keeps its id and may keep its submit
# time, so it may end several times in a file, and the last end is the job's.
SOURCES_OF_RUNS = frozenset({"jobcomp"})


def open_source(spec: str, options: SourceOptions | None = None) -> Source:
    """Build the source that a text like ``swf:FILE`` names."""
    scheme, path = parse_source(spec)
    module, name = SOURCES[scheme]
    source: type[Source] = getattr(importlib.import_module(module), name)
    return source(path, options)


def parse_source(spec: str) -> tuple[str, Path]:
    """Split a text like ``swf:FILE`` into its scheme and its file."""
    scheme, colon, path = spec.partition(":")
    if not colon or scheme not in SOURCES or not path:
        examples = ", ".join(f"{s}:{'FOLDER' if s == 'xalt' else 'FILE'}" for s in SOURCES)
        raise UsageError(f"not a source: {spec!r}. A source is one of {examples}")
    return scheme, Path(path)
