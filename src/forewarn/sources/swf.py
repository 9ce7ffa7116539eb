"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 for missing.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar
from zoneinfo import ZoneInfo

import polars as pl

from forewarn.errors import BadRow, SourceError, UsageError
from forewarn.formatting import percent_in_table
from forewarn.job.outcomes import Outcome
from forewarn.job.units import MOST_COUNT
from forewarn.sources.base import Batch, Lines, Source, SourceOptions, open_file

COLUMNS = (
    *("number", "submit", "wait", "run_time", "cpus_given", "cpu_time", "memory_used"),
    *("cpus_asked", "time_asked", "memory_asked", "status"),
    *("user", "group", "application", "queue", "partition", "preceding", "think_time"),
)

# The only field that may be negative: some exit codes of Sandia-Ross are.
_STATUS = COLUMNS.index("status")

# How the status field is read. `swf` is the format's own; `exit-code` is for logs (Sandia-Ross) whose field
# holds the exit code of the process, where 0 is success. A site may also define it:
# "0=failed,1=completed,5=timeout".
STATUS: Mapping[str, Mapping[int, Outcome]] = MappingProxyType(
    {
        "swf": {
            0: Outcome.FAILED,
            1: Outcome.COMPLETED,
            2: Outcome.UNKNOWN,  # 2, 3, 4: parts of a job that was checkpointed and swapped
            3: Outcome.COMPLETED,
            4: Outcome.FAILED,
            5: Outcome.CANCELLED,
        },
        "exit-code": {0: Outcome.COMPLETED},
    }
)
_FAILED_OTHERWISE = frozenset({"exit-code"})


class SwfSource(Source):
    """A log in the Standard Workload Format, plain or gzipped."""

    name: ClassVar[str] = "swf"

    def __init__(self, path: Path, options: SourceOptions | None = None) -> None:
        super().__init__(path, options)
        self._header = _Header()
        self._last_submit = 0.0
        self._without_submit = 0

    def batches(self) -> Iterator[Batch]:
        """Yield jobs in the order of the log."""
        header = self._header
        statuses: Counter[int] = Counter()
        rows = 0
        with open_file(self.path) as stream:
            for before, block in self.text_blocks(stream):
                frame, bad = self._numbers(block, before, header)
                frame = self._fill_submit_times(frame)
                rows += frame.height + len(bad)
                for status, count in frame["status"].drop_nulls().value_counts().iter_rows():
                    statuses[int(status)] += count
                yield self.job_batch(self._jobs(frame, header), bad, Lines(block, before + 1))
        if rows == 0:
            raise SourceError(f"{self.path}: contains no job, only comments")
        self._note_header()
        self._note_status(statuses)

    @property
    def timezone(self) -> str:
        """The configured zone, else the header's, if it names a known one."""
        return self.options.timezone or self._header.timezone or "UTC"

    def _numbers(self, block: bytes, before: int, header: _Header) -> tuple[pl.DataFrame, tuple[BadRow, ...]]:
        """Split the block's rows into 18 columns of numbers and `line`; separate rows that do not fit."""
        lines = (
            pl.Series("text", block.decode().split("\n"), dtype=pl.String)
            .to_frame()
            .with_row_index("line", offset=before + 1)
            .with_columns(pl.col("text").str.strip_chars())
        )
        for text in lines.filter(pl.col("text").str.starts_with(";"))["text"]:
            header.read(text)
        lines = lines.filter(~pl.col("text").str.starts_with(";") & (pl.col("text") != ""))
        table = lines.with_columns(
            pl.col("text").str.replace_all(r"[ \t]+", " ").str.split_exact(" ", len(COLUMNS)).alias("_parts")
        ).unnest("_parts")
        parts = [f"field_{i}" for i in range(len(COLUMNS))]
        numbers = table.with_columns(pl.col(parts).cast(pl.Float64, strict=False))
        allowed = [pl.col(part).is_between(0, MOST_COUNT) | (pl.col(part) == -1) for part in parts]
        allowed[_STATUS] = pl.col(parts[_STATUS]).abs() <= MOST_COUNT
        right = pl.all_horizontal(allowed) & pl.col(f"field_{len(COLUMNS)}").is_null()
        wrong = ~right.fill_null(False)
        bad = tuple(
            self._explain(number, text)
            for number, text in numbers.filter(wrong).select("line", "text").iter_rows()
        )
        good = (numbers.filter(~wrong) if bad else numbers).select(
            pl.col("line").cast(pl.Int64),
            # -1 means unknown in every field of the format.
            *(
                pl.when(pl.col(part) != -1).then(pl.col(part)).alias(name)
                for part, name in zip(parts, COLUMNS, strict=True)
            ),
        )
        return good, bad

    def _fill_submit_times(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill in missing submit times with the one before: the format is sorted by them.

        Such a row (1,190 in LLNL-Thunder) often holds nothing but its status. An ending without any time
        proves nothing, so its status counts as unknown, too.
        """
        missing = frame["submit"].null_count()
        if missing:
            self._without_submit += missing
            frame = frame.with_columns(
                status=pl.when(pl.col("submit").is_not_null() | pl.col("run_time").is_not_null()).then(
                    "status"
                ),
                submit=pl.col("submit").forward_fill().fill_null(self._last_submit),
            )
        if frame.height:
            self._last_submit = frame["submit"][-1]
        return frame

    def _explain(self, line: int, text: str) -> BadRow:
        parts = text.split()
        if len(parts) != len(COLUMNS):
            return self.bad(line, "line", f"{len(parts)} columns instead of {len(COLUMNS)}", text)
        for name, part in zip(COLUMNS, parts, strict=True):
            try:
                number = float(part)
            except ValueError:
                return self.bad(line, name, f"not a number: {part!r}", text)
            if isnan(number):
                return self.bad(line, name, f"not a number: {part!r}", text)
            if abs(number) > MOST_COUNT:
                return self.bad(line, name, f"a number that is too large: {part!r}", text)
            if number < 0 and number != -1 and name != "status":
                return self.bad(line, name, f"negative: {part!r}; only -1 means missing", text)
        return self.bad(line, "line", "not a row of an SWF log", text)

    def _jobs(self, frame: pl.DataFrame, header: _Header) -> pl.DataFrame:
        def whole(name: str) -> pl.Expr:
            return pl.col(name).round().cast(pl.Int64)

        def label(name: str, names: Mapping[int, str]) -> pl.Expr:
            return whole(name).cast(pl.String).replace({str(k): v for k, v in names.items() if v})

        # A job that never ran has no processors: its wait ends without a start.
        submit = whole("submit") + (header.start or 0)
        ran = pl.col("run_time").is_not_null() & (pl.col("cpus_given").fill_null(1) > 0)
        start = pl.when(ran).then(submit + whole("wait").fill_null(0))
        end = pl.when(ran).then(start + whole("run_time")).otherwise(submit + whole("wait").fill_null(0))
        return frame.select(
            "line",
            cluster=pl.lit(self.cluster),
            job_id=whole("number").cast(pl.String),
            submit=submit,
            user=whole("user").cast(pl.String),
            group=whole("group").cast(pl.String),
            application=whole("application").cast(pl.String),
            qos=label("queue", header.queues),
            partition=label("partition", header.partitions),
            cpus_asked=whole("cpus_asked").replace(0, None),
            time_limit=whole("time_asked").replace(0, None),
            # Kilobytes per processor in the format.
            memory_asked=whole("memory_asked") * 1024,
            memory_per=pl.when(pl.col("memory_asked").is_not_null()).then(pl.lit("cpu")),
            cpus_given=whole("cpus_given").replace(0, None),
            start=start,
            end=end,
            state=whole("status").cast(pl.String),
            outcome=self._outcome(),
            cpu_time=pl.col("cpu_time") * pl.col("cpus_given"),  # per processor in the format
            max_memory=whole("memory_used") * 1024,
        )

    def _outcome(self) -> pl.Expr:
        option = self.options.status or "swf"
        meaning = STATUS[option] if option in STATUS else _read_meaning(option)
        status = pl.col("status").round().cast(pl.Int64)
        otherwise = Outcome.FAILED if option in _FAILED_OTHERWISE else Outcome.UNKNOWN
        return (
            pl.when(status.is_null())
            .then(pl.lit(str(Outcome.UNKNOWN)))
            .otherwise(
                status.replace_strict(
                    {k: str(v) for k, v in meaning.items()}, default=str(otherwise), return_dtype=pl.String
                )
            )
        )

    def _note_header(self) -> None:
        """Note where the header omits when or where the log was written."""
        if self._header.start is None:
            self.notes.append(
                f"{self.path.name}: times count from 1970, because the header has no start of the log "
                "(UnixStartTime)"
            )
        if self._header.unknown_zone is not None and self.options.timezone is None:
            self.notes.append(
                f"{self.path.name}: the header's time zone {self._header.unknown_zone!r} is unknown, "
                f"{self.timezone} is used; see --timezone"
            )

    def _note_status(self, statuses: Counter[int]) -> None:
        """Note rows without a submit time, and labels that look inverted or strange."""
        if self._without_submit:
            self.notes.append(
                f"{self.path.name}: {self._without_submit:,} rows have no submit time; they take the one "
                "before them, and where they have no run time either their outcome is `unknown`"
            )
        if self.options.status is not None or not statuses:
            return
        total = sum(statuses.values())
        odd = {s: n for s, n in statuses.items() if s not in STATUS["swf"]}
        inverted = statuses[0] > statuses[1] and statuses[0] > total / 2
        if inverted or odd:
            what = ", ".join(f"{s}: {percent_in_table(n / total)}" for s, n in statuses.most_common(5))
            why = "most jobs would have failed" if inverted else "the format has no such values"
            self.notes.append(
                f"{self.path.name}: the status field looks like an exit code, so its labels may be inverted "
                f"({what}; {why}). Read it with --status exit-code if 0 means success in this log"
            )


def _read_meaning(status: str) -> Mapping[int, Outcome]:
    try:
        return {
            int(code): Outcome(outcome.strip())
            for code, outcome in (part.split("=", 1) for part in status.split(","))
        }
    except ValueError:
        outcomes = ", ".join(Outcome)
        raise UsageError(
            f"--status {status!r}: not swf, exit-code or a list like 0=failed,1=completed (of {outcomes})"
        ) from None


class _Header:
    """The comment lines at the top of a log."""

    def __init__(self) -> None:
        self.start: int | None = None
        self.timezone: str | None = None
        self.unknown_zone: str | None = None
        self.queues: dict[int, str] = {}
        self.partitions: dict[int, str] = {}

    def read(self, text: str) -> None:
        match = re.match(r";\s*(\w+):\s*(.*?)\s*$", text)
        if match is None:
            return
        key, value = match.groups()
        if key == "UnixStartTime" and re.fullmatch(r"[0-9]{1,15}", value):
            self.start = int(value)
        elif key == "TimeZoneString":
            self.timezone = _known_zone(value) or self.timezone
            self.unknown_zone = value if _known_zone(value) is None else None
        elif key == "TimeZone" and self.timezone is None and re.fullmatch(r"-?[0-9]{1,9}", value):
            # Seconds east of Greenwich; the zone database counts whole hours westward.
            hours = round(int(value) / 3600)
            self.timezone = _known_zone(f"Etc/GMT{-hours:+d}" if hours else "UTC")
        elif key in ("Queue", "Partition"):
            number, _, name = value.partition(" ")
            if re.fullmatch(r"[0-9]{1,15}", number):
                (self.queues if key == "Queue" else self.partitions)[int(number)] = name.strip()


def _known_zone(name: str) -> str | None:
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        return None
