"""Why is this job as it is: the record, what was around it, and its log, put together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from forewarn.assess.post_mortem import nearby_failures as surroundings
from forewarn.assess.post_mortem import record_evidence
from forewarn.assess.post_mortem.advice import Foresee, nobody_foresees, with_numbers
from forewarn.assess.post_mortem.cause_families import FAMILIES
from forewarn.assess.post_mortem.likely_cause import LikelyCause, verdict
from forewarn.assess.post_mortem.log_matching import matches, worth
from forewarn.assess.post_mortem.log_paths import log_paths
from forewarn.assess.post_mortem.log_reading import read_log
from forewarn.assess.post_mortem.pending_reasons import in_words
from forewarn.assess.post_mortem.report import Confidence, FailureEvidence, LogFile, LogLine, PostMortem
from forewarn.assess.similar import Similar, similar_jobs
from forewarn.assess.user_history import read_past
from forewarn.assess.wording.amounts import duration, percent
from forewarn.job.outcomes import POLICIES, FailurePolicy, Outcome, kind_of
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED
from forewarn.sources.slurm.scheduler import JobDetails
from forewarn.store.base import ClusterFacts, Store

_LOG_WORTH = 0.9  # of a line, since a program can go on after an error
_MOST_FROM_LOG = 2  # lines that count for the cause: a hundred warnings are no proof


def explain(
    job: Job,
    store: Store | None = None,
    *,
    details: JobDetails | None = None,
    log: Path | None = None,
    risk: float | None = None,
    now: int | None = None,
    foresee: Foresee = nobody_foresees,
    policy: FailurePolicy = POLICIES["wasted"],
) -> PostMortem:
    """Why a job failed, waits, or how it fares.

    Parameters
    ----------
    store
        Where its nodes, other jobs and the user's earlier jobs are looked up.
    details
        What the scheduler tells beside the record: `Scheduler.details`.
    log
        A log to read instead of those that Slurm names.
    risk
        Of failing, for a job that waits or runs, where an assessor has said it.
    foresee
        What a model foresees that the job needs, for advice to one that had too little.
    policy
        What counts as a failure of similar jobs.
    """
    moment = int(time.time()) if now is None else now
    details = details or JobDetails()
    as_of = _as_of(job, moment)
    similar = Similar()
    if store is not None and job.user is not None:
        facts = store.clusters().get(job.cluster, ClusterFacts())
        past = read_past(store, job.cluster, job.submit if as_of is None else as_of, facts, [job.user])
        similar = similar_jobs(past, job, policy, as_of=as_of)
    if job.outcome is not None:
        return _ended(job, store, details, log, similar, foresee)
    if job.start is None or job.state == "PENDING":
        return _pending(job, details, similar, risk, moment)
    return _running(job, details, log, similar, risk, moment)


def _as_of(job: Job, now: int) -> int:
    """Of an ended job, what was known when it was submitted."""
    return now if job.outcome is None else job.submit


def _report(
    job: Job, phase: str, told: LikelyCause, evidence: Iterable[FailureEvidence], **more: object
) -> PostMortem:
    kind = None
    if job.outcome is not None:
        kind = kind_of(Outcome(job.outcome), job.exit_code, job.exit_signal, ran_to_limit=job.ran_to_limit)
        if told.family == "killed":
            kind = FAMILIES["killed"].kind  # a kill alone tells of no limit
    return PostMortem(
        cluster=job.cluster,
        job_id=job.job_id,
        submit=job.submit,
        user=job.user,
        name=job.name,
        state=job.state,
        outcome=job.outcome,
        phase=phase,
        kind=None if kind is None else str(kind),
        family=told.family,
        cause=told.cause,
        confidence=told.confidence,
        evidence=tuple(evidence),
        what_to_do=told.to_do,
        **more,  # type: ignore[arg-type]
    )


def _ended(
    job: Job,
    store: Store | None,
    details: JobDetails,
    log: Path | None,
    similar: Similar,
    foresee: Foresee,
) -> PostMortem:
    lines, files = _logs(job, details, log)
    evidence = [
        *record_evidence.of_state(job),
        *record_evidence.of_exit(job),
        *record_evidence.of_steps(job, details.steps),
        *_of_log(lines),
        *record_evidence.of_use(job),
        *(() if store is None else surroundings.around(store, job)),
    ]
    told = verdict(job, evidence, lines)
    if told.family is None and (soon := list(record_evidence.at_once(job, details.steps))):
        evidence += soon
        told = verdict(job, evidence, lines)
    to_do = (*with_numbers(job, told.family, foresee), *told.to_do)
    shown = [fact for fact in evidence if fact.source != "log"]  # its lines are quoted by themselves
    return _report(
        job,
        "ended",
        LikelyCause(told.family, told.cause, told.confidence, to_do),
        shown,
        log=lines,
        logs=files,
        steps=details.steps,
        similar=similar.jobs,
        tally=similar.tally,
        notes=details.notes,
    )


def _of_log(lines: Sequence[LogLine]) -> list[FailureEvidence]:
    return [
        FailureEvidence(source="log", what=line.what, family=line.family, worth=_LOG_WORTH * worth(line))
        for line in lines[:_MOST_FROM_LOG]
    ]


def _pending(job: Job, details: JobDetails, similar: Similar, risk: float | None, now: int) -> PostMortem:
    waiting = in_words(job.reason)
    evidence = [FailureEvidence(source="scheduler", what=f"Slurm's reason: {job.reason or 'none'}")]
    evidence.append(
        FailureEvidence(source="record", what=f"it has waited for {duration(max(0, now - job.submit))}")
    )
    to_do = [waiting.to_do.replace("JOBID", job.job_id)] if waiting.to_do else []
    estimate = details.start_estimate if details.start_estimate and details.start_estimate > now else None
    if estimate is not None:
        ahead = duration(estimate - now)
        evidence.append(
            FailureEvidence(
                source="scheduler", what=f"Slurm's own estimate of its start: in {ahead} (squeue --start)"
            )
        )
    elif not waiting.never:
        evidence.append(FailureEvidence(source="scheduler", what="Slurm has no estimate of its start"))
    told = LikelyCause(None, f"The job waits: {waiting.words}", waiting.confidence, tuple(to_do))
    return _report(
        job,
        "pending",
        told,
        [*evidence, *_of_risk(risk)],
        start_estimate=estimate,
        risk=risk,
        similar=similar.jobs,
        tally=similar.tally,
        notes=details.notes,
    )


def _running(
    job: Job, details: JobDetails, log: Path | None, similar: Similar, risk: float | None, now: int
) -> PostMortem:
    assert job.start is not None
    lines, files = _logs(job, details, log)
    ran = max(0, now - job.start - (job.suspended or 0))
    limit = job.time_limit
    words = f"it has run for {duration(ran)}"
    if limit and limit < UNLIMITED:
        words += f" of the {duration(limit)} that it may ({percent(min(ran / limit, 1.0))})"
    causes = [line for line in lines if not line.follow_up]
    cause = "The job runs" + (f", but its log has an error: {causes[0].what}" if causes else "")
    told = LikelyCause(
        causes[0].family if causes else None,
        cause,
        Confidence.POSSIBLE if causes else Confidence.CERTAIN,
        ("See whether it still goes on, else cancel it and do not let it use up its time.",)
        if causes
        else (),
    )
    return _report(
        job,
        "running",
        told,
        [FailureEvidence(source="use", what=words), *_of_risk(risk)],
        log=lines,
        logs=files,
        risk=risk,
        steps=details.steps,
        similar=similar.jobs,
        tally=similar.tally,
        notes=details.notes,
    )


def _of_risk(risk: float | None) -> list[FailureEvidence]:
    return (
        []
        if risk is None
        else [FailureEvidence(source="assessment", what=f"its risk of failing is {percent(risk)}")]
    )


def _logs(job: Job, details: JobDetails, log: Path | None) -> tuple[tuple[LogLine, ...], tuple[LogFile, ...]]:
    """The lines that tell something, and where they were looked for."""
    if log is None and job.start is None:
        return (), ()  # it never ran
    paths = [log] if log is not None else log_paths(job, script=details.script, told=details.outputs)
    guessed = log is None and not (details.outputs or details.script or job.submit_line)
    lines: list[LogLine] = []
    files: list[LogFile] = []
    for path in paths:
        try:
            found = read_log(path)
        except OSError as error:
            why = error.strerror or "it cannot be read"
            if log is not None:
                raise OSError(error.errno, why, str(path)) from None
            files.append(LogFile(path=str(path), read=False, why_not=why.lower(), guessed=guessed))
            continue
        file = LogFile(path=str(path), read=True, size=found.size, whole=found.whole, guessed=guessed)
        if not any(path.samefile(other.path) for other in files if other.read):
            matched = matches(found)
            lines += matched.lines
            file = replace(file, in_time=matched.in_time)
        files.append(file)
    lines.sort(key=lambda line: (line.follow_up, -worth(line)))
    return tuple(lines[:8]), tuple(files)
