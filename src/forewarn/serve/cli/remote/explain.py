"""`forewarn explain` with a service: the job's output is read here, where the user may read it."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from forewarn.assess.post_mortem.log_reading import Log, read_log
from forewarn.job.record import Job
from forewarn.operate.explanation import Explanation
from forewarn.progress import Note
from forewarn.serve.client.client import Client

_EARLIER = 60  # seconds by which clocks may differ


def explain_job_remotely(
    client: Client, job_id: str, *, cluster: str | None = None, log: Path | None = None, note: Note
) -> Explanation:
    """Explain a job as `explain_job` does, by asking a service; its log is sent along."""
    with client:
        if log is not None:
            return _with_log(client, job_id, cluster, read_log(log))
        found = client.explain(job_id, cluster=cluster)
        for file in found.report.logs:
            if file.read or not may_send(Path(file.path), found.job):
                continue
            try:
                read = read_log(Path(file.path))
            except OSError:
                continue
            note(f"sent {file.path} to {client.address}")
            return _with_log(client, job_id, cluster, read)
    return found


def _with_log(client: Client, job_id: str, cluster: str | None, log: Log) -> Explanation:
    first, *last = (part.text.decode("utf-8", "replace") for part in log.parts)
    return client.explain(
        job_id,
        cluster=cluster,
        log=first,
        log_tail=last[0] if last else None,
        log_size=log.size,
        log_path=str(log.path),
    )


def may_send(path: Path, job: Job) -> bool:
    """Tell whether a file that a service names may be sent to it: the output of one's own job, nothing else.

    It must be one's own file without a hidden folder in its path (keys, tokens), written since the job began.
    """
    if job.user != getpass.getuser() or not path.is_absolute() or job.start is None:
        return False
    try:
        real = path.resolve(strict=True)
        about = real.stat()
    except (OSError, RuntimeError, ValueError):
        return False
    is_hidden = any(part.startswith(".") for part in (*path.parts, *real.parts))
    return not is_hidden and about.st_uid == os.getuid() and about.st_mtime >= job.start - _EARLIER
