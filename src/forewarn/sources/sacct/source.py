"""The source of sacct's text, with a header or without, or its JSON."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, ClassVar

import polars as pl

from forewarn.errors import SourceError
from forewarn.sources.base import Batch, Lines, Source, SourceOptions, open_file
from forewarn.sources.sacct.fields import FIELDS, check_names, field_name
from forewarn.sources.sacct.fold import fold_rows
from forewarn.sources.sacct.jobs import job_columns
from forewarn.sources.sacct.lines import LINE_END, SEPARATOR, ColumnLayout, SacctRows, read_rows

_MOST_HELD = 64 << 20  # bytes without a row of a job: more than the steps of one job
_LOOK_AHEAD = 64 << 10  # bytes that show the columns of a file without a header


class SacctSource(Source):
    """The output of `sacct` with --parsable2, --parsable or --json."""

    name: ClassVar[str] = "sacct"

    def __init__(self, path: Path, options: SourceOptions | None = None) -> None:
        super().__init__(path, options)
        self._repaired = 0

    def batches(self) -> Iterator[Batch]:
        """Yield jobs in the order of their own rows; the resources used by their steps are included."""
        with open_file(self.path) as stream:
            if _is_json(stream):
                from forewarn.sources.slurmrestd.answers import answer_batches

                yield from answer_batches(self, stream)
                return
            rows = 0
            for batch in self.read(stream):
                rows += batch.frame.height + len(batch.bad)
                yield batch
            if rows == 0:
                raise SourceError(f"{self.path}: contains no job, only the header")

    def read(self, stream: IO[bytes]) -> Iterator[Batch]:
        """Read sacct's text from a stream; it may hold no job."""
        blocks = self.text_blocks(stream)
        layout, line, text = self._layout(blocks)
        for _, block in chain([(0, b"")], blocks):
            text += block
            cut = layout.last_job(text)
            if cut == 0 and len(text) < _MOST_HELD:
                continue
            cut = cut or len(text)
            yield self._batch(text[:cut], line, layout)
            line += text.count(b"\n", 0, cut)
            text = text[cut:]
        yield self._batch(text, line, layout)
        if self._repaired:
            self._note(
                f"has {self._repaired:,} rows with a | or a line end inside a value; they were repaired"
            )

    # --- columns -------------------------------------------------------------------------------

    def _layout(self, blocks: Iterator[tuple[int, bytes]]) -> tuple[ColumnLayout, int, bytes]:
        """Find the columns of the file, and its first lines after the header with the number of the first."""
        text = b""
        for _, block in blocks:
            text += block
            if len(text) >= _LOOK_AHEAD:
                break
        if not text.strip():
            raise SourceError(f"{self.path}: nothing but blank lines")
        head = text[: len(text) - len(text.lstrip())]
        line, text = head.count(b"\n") + 1, text[head.rfind(b"\n") + 1 :]
        first, _, rest = text.partition(b"\n")
        layout = _header(first.decode())
        option_names = check_names(self.options.fields) if self.options.fields else None
        if layout is None and option_names is None:
            raise SourceError(
                f"{self.path}: line {line} is not a header of sacct's field names. Name its columns, "
                "as in --format: --fields JobID,User,Submit,Start,End,State,…"
            )
        if layout is None:
            assert option_names is not None
            layout = self._without_header(option_names, text)
        else:
            if option_names is not None and option_names != layout.names:
                raise SourceError(f"{self.path}: the header has other fields than the ones given")
            line, text = line + 1, rest
        self._check(layout)
        return layout, line, text

    def _without_header(self, names: tuple[str, ...], text: bytes) -> ColumnLayout:
        """Find the layout of the first rows; if no row has that many columns, the names are wrong."""
        lines = [line for line in text.split(b"\n")[:1000] if line.strip()]
        for layout in (ColumnLayout(names), ColumnLayout(names, ends_with_separator=True)):
            if any(layout.begins_row(line) and layout.is_whole(line) for line in lines):
                return layout
        columns = lines[0].count(b"|") + 1
        raise SourceError(
            f"{self.path}: {len(names)} fields were named, but its rows have {columns} columns, "
            f"or no job id in the one named {names[ColumnLayout(names).id_at]}"
        )

    def _check(self, layout: ColumnLayout) -> None:
        names = set(layout.names)
        if not names & {"JobID", "JobIDRaw"}:
            raise SourceError(
                f"{self.path}: without the field JobID, jobs cannot be identified; export JobID too"
            )
        if not names & {"Submit", "Eligible", "Start"}:
            raise SourceError(f"{self.path}: no field has the submit time: export Submit too")
        if "Submit" not in names:
            self._note("has no field Submit: the eligible or start time is used instead")
        if "State" not in names:
            self._note("has no field State: the outcomes of its jobs are unknown")
        if "Cluster" not in names and self.options.cluster is None:
            self._note(f"names no cluster: its jobs are read as those of {self.cluster!r}; see --cluster")
        if unknown := sorted(names - FIELDS.keys()):
            self._note(f"has unknown fields, which are not read: {', '.join(unknown)}")

    def _note(self, what: str) -> None:
        self.notes.append(f"{self.path.name} {what}")

    # --- rows ----------------------------------------------------------------------------------

    def _batch(self, text: bytes, line: int, layout: ColumnLayout) -> Batch:
        rows = read_rows(text, line, layout)
        self._repaired += rows.repaired
        folded, unreadable = fold_rows(_table(rows, layout), self.timezone)
        jobs = job_columns(folded, set(layout.names), cluster=self.cluster, zone=self.timezone)
        bad = [self.bad(at, "line", why, row.decode()) for at, why, row in rows.bad]
        text_of = Lines(text, line)
        bad += [self.bad(row.line, row.field, row.reason, text_of(row.line)) for row in unreadable]
        may_be_incomplete = {"JobName", "Partition", "ReqCPUS"} <= set(layout.names)
        return self.job_batch(jobs, tuple(bad), text_of, may_be_incomplete=may_be_incomplete)


def _is_json(stream: io.BufferedReader) -> bool:
    return stream.peek(1 << 12).lstrip()[:1] == b"{"


def _header(line: str) -> ColumnLayout | None:
    """Read the layout from a line of field names."""
    words = line.removesuffix("|").split("|")
    names = tuple(field_name(word) or word.strip() for word in words)
    recognised = sum(name in FIELDS for name in names)
    if recognised * 2 <= len(names) or not {"JobID", "JobIDRaw", "State", "Submit"} & set(names):
        return None
    return ColumnLayout(names, ends_with_separator=line.endswith("|"))


def _table(rows: SacctRows, layout: ColumnLayout) -> pl.DataFrame:
    """Split the rows into columns of text, those that are used, with the line of each."""
    places = sorted(
        {layout.names.index(name) for name in layout.names if name in FIELDS and FIELDS[name].column}
    )
    used = [layout.names[place] for place in places]
    if rows.text:
        table = pl.read_csv(
            rows.text,
            separator="|",
            has_header=False,
            quote_char=None,
            infer_schema=False,
            columns=places,
        )
        table.columns = used
    else:
        table = pl.DataFrame(schema=dict.fromkeys(used, pl.String))
    if rows.repaired:
        free = [name for name in used if FIELDS[name].form.free]
        table = table.with_columns(
            pl.col(free)
            .str.replace_all(SEPARATOR, "|", literal=True)
            .str.replace_all(LINE_END, "\n", literal=True)
        )
    return table.with_columns(pl.Series("line", rows.lines, pl.Int64))
