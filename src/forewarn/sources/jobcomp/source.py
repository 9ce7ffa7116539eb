"""The source of jobcomp documents in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

import polars as pl

from forewarn.errors import BadRow
from forewarn.job.columns import SCHEMAS
from forewarn.sources.base import Batch, Source, open_file
from forewarn.sources.jobcomp.documents import BrokenDocument, documents
from forewarn.sources.jobcomp.fields import JOBCOMP_JOB
from forewarn.sources.slurm.job_outcomes import fill_outcomes
from forewarn.sources.slurm.record_rows import RecordRows

_MOST_ROWS = 10_000  # documents that are Python objects at one time


class JobcompSource(Source):
    """Documents of jobcomp/elasticsearch, exported to a file."""

    name: ClassVar[str] = "jobcomp"

    def batches(self) -> Iterator[Batch]:
        """Yield runs of jobs in the order of the file."""
        table, bad = RecordRows(JOBCOMP_JOB, SCHEMAS["job"]), list[BadRow]()
        most = min(self.options.batch_rows, _MOST_ROWS)
        nameless = 0
        with open_file(self.path) as stream:
            for line, document in documents(self, stream):
                if len(table) + len(bad) >= most:
                    frame = table.flush()
                    nameless += frame["cluster"].null_count()
                    yield self._batch(frame, bad)
                    bad = []
                if isinstance(document, BrokenDocument):
                    bad.append(self.bad(line, "document", document))
                elif wrong := table.add(document, line):
                    bad.append(self.bad(line, *wrong, text=json.dumps(document)))
            frame = table.flush()
            nameless += frame["cluster"].null_count()
            yield self._batch(frame, bad)
        if nameless and self.options.cluster is None:
            self.notes.append(
                f"{self.path.name}: {nameless:,} documents name no cluster: they are read as those of "
                f"{self.cluster!r}; see --cluster"
            )

    def _batch(self, frame: pl.DataFrame, bad: list[BadRow]) -> Batch:
        frame = frame.with_columns(pl.col("cluster").fill_null(self.cluster))
        return self.job_batch(fill_outcomes(frame, None), tuple(bad))
