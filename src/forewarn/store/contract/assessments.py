"""Assessments, stored whole: to compare with outcomes, to show again, to delete by age."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import polars as pl

# One assessment: its key is the job, the phase, the model, and when it was computed.
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
        "cause": pl.String(),  # the most likely outcome of a failure; null where no cause is known
        # The whole as JSON text, in the form that the assessment's own schema version says. The store does
        # not read it. Rows of before there was one have none: only verdict, causes, reasons, advice, route.
        "body": pl.String(),
    }
)
NUMBERED_SCHEMA: Mapping[str, pl.DataType] = MappingProxyType(
    {
        "number": pl.Int64(),
        **{name: ASSESSMENT_SCHEMA[name] for name in ("cluster", "job_id", "submit", "body")},
    }
)


class AssessmentReader(ABC):
    """The reading side of assessments: for any caller, at any time, from any thread."""

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
        """Return assessments made in [since, until), in order of time: all columns, or `columns`.

        Without `body` it is much quicker.
        """

    @abstractmethod
    def newest_assessment(self) -> int:
        """Return the number of the assessment saved last, by whomever; 0 if there never was one.

        A store numbers assessments in the order in which readers see them. A number is never given twice,
        even if its assessment is deleted; one that takes another's place has a new number.
        """

    @abstractmethod
    def assessments_after(self, number: int, *, until: int, most: int) -> pl.DataFrame:
        """Return the first `most` assessments with numbers after `number` up to `until`, in that order.

        The columns are those of `NUMBERED_SCHEMA`.
        """


class AssessmentWriter(ABC):
    """The writing side of assessments: for whoever assessed, if the store may be written to."""

    @abstractmethod
    def keep_assessments(self, frame: pl.DataFrame) -> int:
        """Save assessments (columns of `ASSESSMENT_SCHEMA`); return how many were new.

        One whose key is there already takes its place: of the same second, the last one. `UsageError`
        where a part of the key is missing.
        """

    @abstractmethod
    def forget_assessments(self, cluster: str, before: int) -> int:
        """Delete a cluster's assessments from before a time; return how many."""

    @abstractmethod
    def drop_assessments(self, keys: pl.DataFrame) -> int:
        """Delete assessments by their whole key (columns of `ASSESSMENT_KEY`); return how many there were."""
