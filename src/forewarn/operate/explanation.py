"""Why a job failed or is pending, as a home or a service found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from forewarn.assess.json_form import part_from_json
from forewarn.assess.post_mortem.report import PostMortem
from forewarn.job.record import Job


@dataclass(frozen=True, slots=True)
class Explanation:
    """A post-mortem with the job's record and the time zone of its cluster."""

    report: PostMortem
    job: Job
    timezone: str

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the answer of a service."""
        report = PostMortem.from_json(value)
        return cls(report, part_from_json(Job, value["job"]), str(value["timezone"]))
