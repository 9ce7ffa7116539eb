"""The tasks of a pending array, which one assessment represents."""

from __future__ import annotations

from forewarn.assess.assessment import Assessment
from forewarn.store.base import Store
from forewarn.store.filters import Equal, Missing


def pending_tasks(store: Store, assessment: Assessment) -> list[str]:
    """Return the ids of the pending tasks of an array of which one was assessed; of another job none.

    A task that runs was assessed for itself.
    """
    array, is_task, _ = (assessment.job_id or "").partition("_")
    if not is_task or not array.isdecimal() or assessment.submit is None or assessment.state != "PENDING":
        return []
    frames = store.scan(
        cluster=assessment.cluster,
        since=assessment.submit,
        until=assessment.submit + 1,
        columns=["job_id"],
        where=Equal("array_job_id", int(array)) & Missing("start") & Missing("outcome"),
    )
    return [job_id for frame in frames for job_id in frame["job_id"]]
