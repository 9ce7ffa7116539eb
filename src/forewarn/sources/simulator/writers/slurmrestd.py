"""What slurmrestd answers to `/slurmdb/vX/jobs`: one JSON object with a list of jobs.

Two shapes: numbers plain and states a word (up to v0.0.38), or numbers as `{"set", "infinite",
"number"}` and states a list (since v0.0.39).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import polars as pl

from forewarn.errors import UsageError
from forewarn.job.units import parse_tres
from forewarn.sources.simulator.scenario import Scenario
from forewarn.sources.simulator.writers.base import TextWriter

NEWEST = "v0.0.45"
_TRES_IDS = {"cpu": 1, "mem": 2, "energy": 3, "node": 4, "fs/disk": 6, "gres/gpu": 1001}
_COUNTED = pl.List(pl.Struct({"type": pl.String, "name": pl.String, "id": pl.Int64, "count": pl.Int64}))


class SlurmrestdWriter(TextWriter):
    """Jobs as the accounting database answers them, in the shape of an API version."""

    name: ClassVar[str] = "slurmrestd"
    separator: ClassVar[str] = ",\n"

    def __init__(self, path: Path, scenario: Scenario, *, version: str = NEWEST) -> None:
        super().__init__(path, scenario)
        known = [f"v0.0.{n}" for n in range(36, 46)]
        if version not in known:
            raise UsageError(f"no API version {version!r}; known are {known[0]} to {known[-1]}")
        self._version = version
        self._old = int(version.rpartition(".")[2]) <= 38

    def head(self) -> str:
        """Return the meta data and the beginning of the list of jobs."""
        meta = {
            "plugin": {"type": "openapi/slurmdbd", "data_parser": f"data_parser/{self._version}"},
            "slurm": {"release": "simulated", "cluster": self.scenario.cluster.name},
        }
        return f'{{"meta": {json.dumps(meta)}, "errors": [], "warnings": [], "jobs": [\n'

    def foot(self) -> str:
        """Return the end of the list."""
        return "]}\n"

    def body(self, frame: pl.DataFrame) -> pl.Series:
        """Return each job as one JSON object."""
        frame = frame.with_columns(
            _asked=_counted(frame["tres_asked"]),
            _given=_counted(frame["tres_given"]),
        )
        return frame.select(
            pl.struct(value.alias(key) for key, value in self._job().items()).struct.json_encode()
        ).to_series()

    # --- one job -------------------------------------------------------------------------------

    def _job(self) -> dict[str, pl.Expr]:
        col = pl.col
        return {
            "account": col("account"),
            "allocation_nodes": col("nodes_given").fill_null(0),
            "array": pl.struct(
                job_id=col("array_job_id").fill_null(0),
                task_id=self._number(col("array_task_id")),
                task=pl.lit(None, pl.String) if self._old else pl.lit(""),
            ),
            "association": pl.struct("account", "cluster", "user"),
            "cluster": col("cluster"),
            "constraints": pl.lit(""),
            "derived_exit_code": self._exit(col("derived_exit_code"), pl.lit(0)),
            "time": self._times(),
            "exit_code": self._exit(col("exit_code"), col("exit_signal")),
            "group": col("group"),
            "job_id": col("raw_id"),
            "name": col("name"),
            "nodes": col("nodes").fill_null("None assigned"),
            "partition": col("partition"),
            "priority": self._number(col("priority")),
            "qos": col("qos"),
            "required": self._required(),
            "kill_request_user": col("cancelled_by"),
            "restart_cnt": col("restarts"),
            "state": pl.struct(current=self._state(col("state")), reason=pl.lit("None")),
            "steps": self._steps(),
            "submit_line": col("submit_line"),
            "tres": pl.struct(allocated=col("_given"), requested=col("_asked")),
            "user": col("user"),
            "working_directory": col("work_dir"),
        }

    def _number(self, value: pl.Expr) -> pl.Expr:
        if self._old:
            return value
        return pl.struct(set=value.is_not_null(), infinite=pl.lit(False), number=value.fill_null(0))

    def _state(self, word: pl.Expr) -> pl.Expr:
        return word if self._old else pl.concat_list(word)

    def _exit(self, code: pl.Expr, signal: pl.Expr) -> pl.Expr:
        caught = signal > 0
        word = (
            pl.when(caught)
            .then(pl.lit("SIGNALED"))
            .when(code > 0)
            .then(pl.lit("ERROR"))
            .otherwise(pl.lit("SUCCESS"))
        )
        by = pl.when(caught).then(signal)
        given = pl.struct(signal_id=by) if self._old else pl.struct(id=self._number(by))
        exited = self._number(pl.when(~caught).then(code))
        return pl.struct(status=self._state(word), return_code=exited, signal=given)

    def _required(self) -> pl.Expr:
        cpus = pl.col("cpus_asked")
        amount, per = pl.col("memory_asked") // (1 << 20), pl.col("memory_per")
        if self._old:
            return pl.struct(CPUs=cpus, memory=amount)
        return pl.struct(
            CPUs=cpus,
            memory_per_cpu=self._number(pl.when(per == "cpu").then(amount)),
            memory_per_node=self._number(pl.when(per == "node").then(amount)),
        )

    def _times(self) -> pl.Expr:
        return pl.struct(
            elapsed=(pl.col("end") - pl.col("start")).fill_null(0),
            eligible="eligible",
            end="end",
            # Of a job that never ran slurmdb says that it started when it ended.
            start=pl.coalesce("start", "end"),
            submission="submit",
            suspended=pl.col("suspended").fill_null(0),
            limit=self._number(pl.col("time_limit") // 60),
            total=_seconds(pl.col("cpu_time").fill_null(0.0)),
        )

    def _steps(self) -> pl.Expr:
        """Return the batch step, which did all the work; none for a job that never ran."""
        step = pl.struct(
            time=pl.struct(
                elapsed=pl.col("end") - pl.col("start"),
                end=self._number(pl.col("end")),
                start=self._number(pl.col("start")),
                total=_seconds(pl.col("cpu_time").fill_null(0.0)),
            ),
            exit_code=self._exit(pl.col("exit_code"), pl.col("exit_signal")),
            nodes=pl.struct(count=pl.lit(1), range=pl.col("nodes")),
            tasks=pl.struct(count=pl.lit(1)),
            state=self._state(pl.col("state")),
            statistics=pl.struct(energy=pl.struct(consumed=self._number(pl.col("energy").fill_null(0)))),
            step=pl.struct(
                id=pl.lit("batch") if self._old else pl.concat_str("raw_id", pl.lit(".batch")),
                name=pl.lit("batch"),
            ),
            tres=pl.struct(
                requested=pl.struct(
                    max=_measured("mem", "max_memory"), total=_measured("fs/disk", "io_read")
                ),
                consumed=pl.struct(total=_measured("fs/disk", "io_written")),
            ),
        )
        return pl.concat_list(step).list.head(pl.col("start").is_not_null().cast(pl.Int64))


def _seconds(amount: pl.Expr) -> pl.Expr:
    millionths = (amount * 1e6).round().cast(pl.Int64)
    return pl.struct(seconds=millionths // 1_000_000, microseconds=millionths % 1_000_000)


def _measured(tres: str, column: str) -> pl.Expr:
    """Return a list of one resource that a step used; empty if it was not measured."""
    kind, _, name = tres.partition("/")
    one = pl.struct(type=pl.lit(kind), name=pl.lit(name), id=pl.lit(_TRES_IDS[tres]), count=pl.col(column))
    return pl.concat_list(one).list.head(pl.col(column).is_not_null().cast(pl.Int64))


def _counted(tres: pl.Series) -> pl.Series:
    """Convert TRES texts to slurmdb's lists, memory in megabytes, once for each distinct text."""
    different = tres.unique(maintain_order=True)
    lists = pl.Series("list", [_list(text) for text in different], dtype=_COUNTED)
    table = pl.DataFrame([different.alias("text"), lists])
    return tres.to_frame("text").join(table, on="text", how="left", maintain_order="left", nulls_equal=True)[
        "list"
    ]


def _list(text: str | None) -> list[dict[str, str | int]]:
    found: list[dict[str, str | int]] = []
    for tres, count in parse_tres(text or "").items():
        kind, _, name = tres.partition("/")
        amount = count >> 20 if tres == "mem" else count
        found.append({"type": kind, "name": name, "id": _TRES_IDS[tres], "count": amount})
    return found
