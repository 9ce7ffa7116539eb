"""Slurm's units over whole columns: the readers of `forewarn.job.units`, as Polars expressions.

Each function takes a column of text and returns a column of values: null where the text is absent
(`present`) and null where it cannot be read, so that texts that cannot be read are those with
`present(text).is_not_null() & value.is_null()`. A property test compares both sets of readers.

Columns with few distinct values (TRES strings, states) are read once for each value by the scalar
function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import polars as pl

from forewarn.job.outcomes import Outcome, outcome_of_state
from forewarn.job.step_outcomes import OUT_OF_MEMORY_SIGNAL
from forewarn.job.units import (
    ABSENT,
    MOST_BYTES,
    MOST_COUNT,
    NO_LIMIT,
    UNLIMITED,
    format_tres,
    gpus_in_tres,
    parse_tres,
)


def present(text: pl.Expr) -> pl.Expr:
    """Strip a text; null where it is one of Slurm's words for a missing value."""
    bare = text.str.strip_chars()
    return pl.when(~bare.str.to_uppercase().is_in(sorted(ABSENT))).then(bare)


def whole_number(text: pl.Expr) -> pl.Expr:
    """Read a count."""
    count = text.cast(pl.UInt64, strict=False)
    return pl.when(count <= MOST_COUNT).then(count).cast(pl.Int64)


# --- durations and memory ------------------------------------------------------------------------

_DURATION = r"^\s*(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?(\.[0-9]+)?\s*$"


def duration(text: pl.Expr, *, bare: int = 60) -> pl.Expr:
    """Read a duration as whole seconds; a lone number is in units of `bare` seconds.

    >>> frame = pl.DataFrame({"t": ["1-02:03:04", "30", "02:30.5", "Partition_Limit", "soon"]})
    >>> frame.select(duration(pl.col("t"))).to_series().to_list()
    [93784, 1800, 150, None, None]
    """

    def seconds(texts: pl.Series) -> pl.Series:
        return _duration_parts(texts, bare)["whole"].cast(pl.Int64)

    return text.map_batches(lambda texts: _by_distinct(texts, seconds), return_dtype=pl.Int64)


def fine_duration(text: pl.Expr) -> pl.Expr:
    """Read seconds with their decimals, as sacct shows CPU time: ``00:01.250``."""

    def seconds(texts: pl.Series) -> pl.Series:
        parts = _duration_parts(texts, bare=1)
        return parts.select(pl.col("whole") + pl.col("decimals").fill_null(0.0)).to_series()

    return text.map_batches(seconds, return_dtype=pl.Float64)


def _duration_parts(texts: pl.Series, bare: int) -> pl.DataFrame:
    """Split durations into whole seconds and decimals."""
    # Floats hold every count up to the maximum exactly, and larger ones without overflow.
    parts = texts.str.extract_groups(_DURATION).struct.unnest().cast(pl.Float64)
    days, a, b, c, decimals = (pl.col(name) for name in parts.columns)
    amount = (
        pl.when(days.is_not_null())
        .then(days * 86400 + a * 3600 + b.fill_null(0) * 60 + c.fill_null(0))
        .when(c.is_not_null())
        .then(a * 3600 + b * 60 + c)
        .when(b.is_not_null())
        .then(a * 60 + b)
        .otherwise(a * bare)
    )
    seconds = parts.select(whole=amount, decimals=decimals)
    whole = _with_no_limit(_within(seconds["whole"], MOST_COUNT), texts, UNLIMITED)
    return seconds.with_columns(whole=whole)


def _within(amounts: pl.Series, most: int) -> pl.Series:
    """Set values above `most` to null; searched for only where there are any."""
    greatest = amounts.max()
    if not isinstance(greatest, int | float) or greatest <= most:
        return amounts
    return amounts.set(amounts > most, None)


def _by_distinct(texts: pl.Series, read: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Apply `read` to the distinct texts only, where they are few: time limits, suspensions."""
    distinct = texts.unique()
    if distinct.len() >= texts.len() // 8:
        return read(texts)
    return texts.replace_strict(distinct, read(distinct), return_dtype=pl.Int64)


def _with_no_limit(found: pl.Series, texts: pl.Series, unlimited: int) -> pl.Series:
    """Fill in words for "no limit"; they are rare, and searched for only where something is unread."""
    if found.null_count() == texts.null_count():
        return found
    without = texts.str.strip_chars().str.to_uppercase().is_in(sorted(NO_LIMIT)).fill_null(False)
    return found.set(without, unlimited)


_MEMORY = r"(?i)^\s*([0-9]+)(\.[0-9]+)?([BKMGTP]?)(?:I?B)?([cn]?)\s*$"
_SCALE = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def memory(text: pl.Expr, *, bare: str = "M") -> pl.Expr:
    """Read an amount of memory as bytes; a bare number is in `bare` units.

    >>> frame = pl.DataFrame({"m": ["4000Mc", "0n", "2.5G", "7"]})
    >>> frame.select(memory(pl.col("m")), per=memory_per(pl.col("m"))).rows()
    [(4194304000, 'cpu'), (0, 'node'), (2684354560, None), (7340032, None)]
    """

    def amount(texts: pl.Series) -> pl.Series:
        parts = texts.str.extract_groups(_MEMORY).struct.unnest()
        whole, decimals, unit, _ = (pl.col(name) for name in parts.columns)
        scale = unit.str.to_uppercase().replace_strict(
            {"": _SCALE[bare], **_SCALE}, default=None, return_dtype=pl.Int64
        )
        # Separately, since a float cannot hold every count of bytes.
        rest = (decimals.cast(pl.Float64).fill_null(0.0) * scale).round(mode="half_to_even")
        counted = parts.select(
            whole=whole.cast(pl.Int64, strict=False), scale=scale, rest=rest.cast(pl.Int64)
        )
        if (counted["whole"].max() or 0) * (counted["scale"].max() or 0) > MOST_BYTES:  # type: ignore[operator]
            beyond = pl.col("whole").cast(pl.Float64) * pl.col("scale") > MOST_BYTES
            counted = counted.with_columns(whole=pl.when(~beyond).then("whole"))
        found = counted.select(pl.col("whole") * pl.col("scale") + pl.col("rest")).to_series()
        return _with_no_limit(found, texts, UNLIMITED << 20)

    def plain(texts: pl.Series) -> pl.Series:
        found = texts.cast(pl.Int64, strict=False)
        return found.set(~found.is_between(0, MOST_BYTES // _SCALE[bare]), None) * _SCALE[bare]

    def in_turn(texts: pl.Series) -> pl.Series:
        return _in_turn(texts, plain, amount) if _first(texts).isdigit() else amount(texts)

    return text.map_batches(in_turn, return_dtype=pl.Int64)


def memory_per(text: pl.Expr) -> pl.Expr:
    """Read what an amount of memory is per, where the text has it: cpu or node."""
    per = text.str.extract(_MEMORY, 4).str.to_lowercase()
    return per.replace_strict({"c": "cpu", "n": "node"}, default=None, return_dtype=pl.String)


# --- times ---------------------------------------------------------------------------------------


def moment(
    text: pl.Expr, zone: str = "UTC", *, ambiguous: Literal["earliest", "latest"] = "earliest"
) -> pl.Expr:
    """Read a local time of the zone as Unix seconds; null where the clock skipped it.

    In the hour that a clock repeats, the text does not show which one is meant. The formats of
    `SLURM_TIME_FORMAT` are read too: Unix seconds, and an offset at the end.

    >>> texts = ["2024-07-01T12:00:00", "1719828000", "2024-07-01T12:00:00+0200", "Unknown"]
    >>> frame = pl.DataFrame({"t": texts})
    >>> frame.select(moment(pl.col("t"), "Europe/Berlin"))["t"].to_list()
    [1719828000, 1719828000, 1719828000, None]
    """

    def clock(texts: pl.Series) -> pl.Series:
        found = texts.str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False, time_unit="ms")
        if zone != "UTC":
            found = found.dt.replace_time_zone(zone, ambiguous=ambiguous, non_existent="null")
        return found.dt.epoch("s")

    def with_offset(texts: pl.Series) -> pl.Series:
        found = texts.str.to_datetime("%Y-%m-%dT%H:%M:%S%#z", strict=False, time_unit="ms")
        return found.dt.epoch("s")

    def whole_number_of(texts: pl.Series) -> pl.Series:
        return texts.cast(pl.Int64, strict=False)

    def seconds(texts: pl.Series) -> pl.Series:
        # A file mostly writes its times in one way: the others are tried on what is left.
        if len(_first(texts)) > len("2024-07-01T12:00:00"):
            return _in_turn(texts, with_offset, clock, whole_number_of)
        return _in_turn(texts, clock, with_offset, whole_number_of)

    return text.str.strip_chars().map_batches(seconds, return_dtype=pl.Int64)


def fix_repeated_hour(frame: pl.DataFrame, zone: str) -> pl.DataFrame:
    """Correct `start` and `end` in the hour that a clock repeats: neither may precede submit or start.

    A time that was read as the first of both hours, and would come too early, is in the second.
    """
    for earlier, later in (("submit", "start"), ("start", "end")):
        early = pl.col(later) < pl.col(earlier)
        if zone != "UTC" and frame.select(early.any()).item():
            wall = pl.from_epoch(later).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
            second = wall.dt.replace_time_zone(None).dt.replace_time_zone(zone, ambiguous="latest")
            frame = frame.with_columns(
                pl.when(early).then(second.dt.epoch("s")).otherwise(later).alias(later)
            )
    return frame


def _first(texts: pl.Series) -> str:
    """Return the first text of a column, which shows its usual form."""
    first = texts.drop_nulls().head(1)
    return str(first.item()) if first.len() else ""


def _in_turn(texts: pl.Series, *readers: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Apply the first reader, then the next ones to what is left."""
    found = readers[0](texts)
    for read in readers[1:]:
        left = (found.is_null() & texts.is_not_null()).arg_true()
        if left.is_empty():
            break
        found = found.scatter(left, read(texts.gather(left)))
    return found


# --- columns of few distinct texts ---------------------------------------------------


def map_distinct(
    text: pl.Expr, read: Callable[[str], Any], dtype: pl.DataType | type[pl.DataType]
) -> pl.Expr:
    """Apply `read` once to each distinct text of the column; ValueError is null."""

    def value(item: str) -> Any:
        try:
            return read(item)
        except ValueError:
            return None

    def column(texts: pl.Series) -> pl.Series:
        distinct = texts.drop_nulls().unique()
        values = pl.Series([value(item) for item in distinct], dtype=dtype, strict=False)
        return texts.replace_strict(distinct, values, default=None, return_dtype=dtype)

    return text.map_batches(column, return_dtype=dtype)


TRES = pl.Struct({"text": pl.String, "cpu": pl.Int64, "mem": pl.Int64, "node": pl.Int64, "gpu": pl.Int64})


def tres(text: pl.Expr) -> pl.Expr:
    """Read a TRES string as a struct: its canonical text, and the counts that records have fields for.

    >>> frame = pl.DataFrame({"t": ["node=1,cpu=2,mem=62.50G,gres/gpu:a=3"]})
    >>> frame.select(tres(pl.col("t")))["t"][0]
    {'text': 'cpu=2,gres/gpu:a=3,mem=64000M,node=1', 'cpu': 2, 'mem': 67108864000, 'node': 1, 'gpu': 3}
    """

    def read(item: str) -> dict[str, Any] | None:
        found = parse_tres(item)
        if not found:
            return None
        counts = {name: found.get(name) for name in ("cpu", "mem", "node")}
        return {"text": format_tres(found), **counts, "gpu": gpus_in_tres(found)}

    return map_distinct(text, read, TRES)


def outcome(state: pl.Expr) -> pl.Expr:
    """Map a scheduler's state to an outcome, null for a job that has not ended: see `outcome_of_state`."""

    def read(item: str) -> str | None:
        found = outcome_of_state(item)
        return None if found is None else str(found)

    return map_distinct(state, read, pl.String)


def exact_outcome(outcome: pl.Expr, of_steps: pl.Expr, *signals: pl.Expr) -> pl.Expr:
    """Refine the outcome of failed jobs by that of their steps, or by Slurm's mark in place of a signal.

    `signals` are those of the job's own exit code and of the highest of its steps.

    >>> frame = pl.DataFrame({"o": ["failed", "failed", "completed"], "s": ["timeout", None, None]})
    >>> frame.select(exact_outcome(pl.col("o"), pl.col("s"), pl.lit(125))).to_series().to_list()
    ['timeout', 'out_of_memory', 'completed']
    """
    killed = pl.any_horizontal(signal == OUT_OF_MEMORY_SIGNAL for signal in signals).fill_null(False)
    by_mark = pl.when(killed).then(pl.lit(str(Outcome.OUT_OF_MEMORY)))
    failed = outcome == str(Outcome.FAILED)
    return pl.when(failed).then(pl.coalesce(of_steps, by_mark, outcome)).otherwise(outcome)


# --- exit codes ----------------------------------------------------------------------------------

# Codes are a byte, signals seven bits.
_EXIT = r"^\s*0*(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9]):0*(12[0-7]|1[01][0-9]|[0-9]?[0-9])\s*$"


def exit_code(text: pl.Expr) -> pl.Expr:
    """Read the code of ``code:signal``."""
    return _exit_part(text, 1)


def exit_signal(text: pl.Expr) -> pl.Expr:
    """Read the signal of ``code:signal``."""
    return _exit_part(text, 2)


def _exit_part(text: pl.Expr, part: int) -> pl.Expr:
    def read(texts: pl.Series) -> pl.Series:
        return texts.str.extract(_EXIT, part).cast(pl.Int64)

    return text.map_batches(lambda texts: _by_distinct(texts, read), return_dtype=pl.Int64)
