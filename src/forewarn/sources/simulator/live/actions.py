"""What users did from outside, as lines of a log that is replayed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from forewarn.errors import StoreError
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAction:
    """One submission, change or cancellation: who did it, and when in simulated time."""

    at: int
    user: str
    job_id: str | None = None  # of a change or a cancellation
    submission: JobSubmission | None = None
    update: JobUpdate | None = None  # without it, and without a submission, the job is cancelled

    def to_line(self) -> str:
        """Write it as one line of JSON."""
        found: dict[str, Any] = {"at": self.at, "user": self.user, "job_id": self.job_id}
        if self.submission is not None:
            # What the job gets as its environment may hold secrets, and changes nothing here.
            found["submission"] = _without_none(asdict(self.submission) | {"environment": {}})
        if self.update is not None:
            found["update"] = _without_none(asdict(self.update))
        return json.dumps(_without_none(found), separators=(",", ":")) + "\n"

    @classmethod
    def from_line(cls, line: bytes) -> UserAction:
        """Read such a line; `StoreError` where it is none."""
        try:
            found = json.loads(line)
            return cls(
                at=int(found["at"]),
                user=str(found["user"]),
                job_id=found.get("job_id"),
                submission=JobSubmission(**found["submission"]) if "submission" in found else None,
                update=JobUpdate(**found["update"]) if "update" in found else None,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"the simulator's actions: a line that cannot be read ({error}): {line[:80]!r}"
            ) from None


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
