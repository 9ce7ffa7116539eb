"""A notice from a hook of Slurm: a job was submitted, started or ended, so look at it soon.

It says nothing about the job that is believed: the service asks Slurm. So whoever may write to the socket can
make it look earlier, and nothing else.

    {"version": 1, "cluster": "alps", "job_id": "123_4", "event": "started"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from forewarn.errors import BadField, BadFieldsError
from forewarn.job.json_form import RULES

NOTICE_VERSION = 1
MOST_BYTES_OF_NOTICE = 4096
_JOB_ID = re.compile(r"\d{1,10}(_\d{1,10}|\+\d{1,6})?", re.ASCII)
_CLUSTER = re.compile(RULES["cluster"].pattern or "", re.ASCII)


class HookEvent(StrEnum):
    """What a hook has seen."""

    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookNotice:
    """One notice."""

    job_id: str
    event: HookEvent
    cluster: str | None = None  # None: the only one

    @classmethod
    def parse(cls, datagram: bytes) -> HookNotice:
        """Read a datagram; `BadFieldsError` for anything that is not a notice.

        >>> HookNotice.parse(b'{"version": 1, "job_id": "7", "event": "ended"}').event
        <HookEvent.ENDED: 'ended'>
        """
        if len(datagram) > MOST_BYTES_OF_NOTICE:
            raise _wrong("", f"expected at most {MOST_BYTES_OF_NOTICE} bytes")
        try:
            value = json.loads(datagram)
        except (ValueError, RecursionError):
            raise _wrong("", "not JSON") from None
        if not isinstance(value, Mapping):
            raise _wrong("", "expected an object")
        cluster, job_id, event = value.get("cluster"), value.get("job_id"), value.get("event")
        if value.get("version") != NOTICE_VERSION:
            raise _wrong("/version", f"expected {NOTICE_VERSION}")
        if not isinstance(job_id, str) or _JOB_ID.fullmatch(job_id) is None:
            raise _wrong("/job_id", "expected the id of a job as a text: 123, 123_4")
        if cluster is not None and not (
            isinstance(cluster, str) and len(cluster) <= RULES["cluster"].most and _CLUSTER.fullmatch(cluster)
        ):
            raise _wrong("/cluster", "expected the name of a cluster")
        if not isinstance(event, str) or event not in tuple(HookEvent):
            raise _wrong("/event", f"expected one of {', '.join(HookEvent)}")
        return cls(job_id=job_id, event=HookEvent(event), cluster=cluster)


def _wrong(path: str, reason: str) -> BadFieldsError:
    return BadFieldsError("the notice", [BadField(path, reason)])
