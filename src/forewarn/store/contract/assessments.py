"""What was said of jobs, whole: to be held against what came true, shown again, and forgotten by age."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import polars as pl

# One assessment: its key is the job, the phase, the model, and when it was made.
ASSESSMENT_KEY = ("cluster", "job_id", "submit", "phase", "model", "made_at")
ASSESSMENT_SCHEMA: Mapping[str, pl.DataType] = MappingProxyType(
    {
        "cluster": pl.String(),
        "job_id": pl.String(),
        "submit": pl.Int64(),
        "phase": pl.String(),
        "model": pl.String(),
        "made_at": pl.Int64(),
        "probability": pl.Float64(),  # null where nobody knew enough
        "threshold": pl.Float64(),
        "verdict": pl.String(),
        "hours_at_risk": pl.Float64(),
        # The whole as JSON text, in the form that the assessment's own schema version says. The store does
        # not read it. Rows of before there was one have none: only verdict, causes, reasons, advice, route.
        "body": pl.String(),
    }
)


class AssessmentReader(ABC):
    """Reads assessments: for anybody, at any time, from any thread."""

    @abstractmethod
    def assessments(
        self,
        *,
        cluster: str | None = None,
        job_id: str | None = None,
        since: int | None = None,
        until: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Assessments made in [since, until), in that order: all columns, or these.

        Without `body` it is much quicker.
        """


class AssessmentWriter(ABC):
    """Keeps and forgets assessments: for whoever made them, where the store may be written to."""

    @abstractmethod
    def keep_assessments(self, frame: pl.DataFrame) -> int:
        """Keep assessments (columns of `ASSESSMENT_SCHEMA`); how many were new.

        One whose key is there already takes its place: of the same second, what was said last. `UsageError`
        where a part of the key is missing.
        """

    @abstractmethod
    def forget_assessments(self, cluster: str, before: int) -> int:
        """Remove a cluster's assessments that were made before a moment; how many."""
