"""Details of one job from slurmrestd that are not in its record: outputs, script, steps, estimated start."""

from __future__ import annotations

from typing import Any

from forewarn.errors import RefusedError, SchedulerError
from forewarn.job.units import JobId
from forewarn.sources.slurm.job_values import exit_status, state
from forewarn.sources.slurm.record_values import RawRecord, as_number
from forewarn.sources.slurm.scheduler import JobDetails, StepRecord
from forewarn.sources.slurmrestd.refusals import UNKNOWN_JOB
from forewarn.sources.slurmrestd.session import SHOW_SCRIPTS, QueryParameters, RestSession

_state, _live_state, _exit = state("state"), state("job_state"), exit_status("exit_code")


def read_details(session: RestSession, target: JobId) -> JobDetails:
    """Read each part where it is available: from the controller, then from accounting."""
    notes: list[str] = []
    live = _one(session, "slurm", target, notes)
    past = _one(session, "slurmdb", target, notes)
    if past and not past.get("script") and session.served.has(session.version, SHOW_SCRIPTS):
        # `job/7` omits the script; `jobs`, with the job's number, has it.
        past = _one(session, "slurmdb", target, notes, {"step": str(target), SHOW_SCRIPTS: "true"}) or past
    owner = _text(live.get("user_name"))
    if owner and _owner_of_past(past) not in (None, owner):
        past = {}  # of an earlier job with this id
    estimate = as_number(live.get("start_time")) if _live_state(live) == "PENDING" else None
    script = past.get("script")
    return JobDetails(
        user=owner or _owner_of_past(past),
        outputs=_outputs(live, past),
        script=script if isinstance(script, str) and script.startswith("#!") else None,
        start_estimate=int(estimate) if estimate else None,  # 0: none yet
        steps=tuple(_step(step) for step in past.get("steps") or ()),
        notes=tuple(notes),
    )


def _one(
    session: RestSession, area: str, target: JobId, notes: list[str], query: QueryParameters | None = None
) -> RawRecord:
    """Return the job's newest record, for an array its task; empty where it is unknown."""
    try:
        jobs = session.get_json(area, "jobs" if query else f"job/{target.number}", query).get("jobs") or []
    except SchedulerError as error:
        if not (isinstance(error, RefusedError) and error.code == UNKNOWN_JOB):
            service = "the controller" if area == "slurm" else "accounting"
            notes.append(f"could not read {service}'s record: {error}")
        return {}
    matching = [job for job in jobs if isinstance(job, dict) and _matches(job, area, target)]
    return matching[-1] if matching else {}


def _matches(job: RawRecord, area: str, target: JobId) -> bool:
    if target.task is None:
        return True
    array: Any = job.get("array") or {}
    task = as_number(job.get("array_task_id") if area == "slurm" else array.get("task_id"))
    return task is None or int(task) == target.task


def _owner_of_past(past: RawRecord) -> str | None:
    association: Any = past.get("association") or {}
    return _text(past.get("user")) or _text(association.get("user"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _outputs(live: RawRecord, past: RawRecord) -> tuple[str, ...]:
    found = []
    for places in (
        ("stderr_expanded", "standard_error", "stderr"),
        ("stdout_expanded", "standard_output", "stdout"),
    ):
        paths = (record.get(place) for record in (live, past) for place in places)
        path = next((path for path in paths if isinstance(path, str) and path), None)
        if path is not None:
            found.append(path)
    return tuple(dict.fromkeys(found))


def _step(step: RawRecord) -> StepRecord:
    identity = step.get("step") or {}
    name, step_id = str(identity.get("name") or ""), str(identity.get("id") or "")
    try:
        code, signal = _exit(step)
    except ValueError:
        code = signal = None
    short = step_id.rpartition(".")[2] or name  # 21.batch, and before v0.0.39 batch
    nodes = (step.get("nodes") or {}).get("range")
    return StepRecord(
        name=short,
        state=_state(step),
        exit_code=code,
        exit_signal=signal,
        nodes=nodes or None,
        command=name if name and name != short else None,
    )
