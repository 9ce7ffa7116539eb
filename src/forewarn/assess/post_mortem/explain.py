"""Explain a job by its record, its log, and what happened around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from forewarn.assess.post_mortem import nearby_failures as surroundings
from forewarn.assess.post_mortem import record_evidence, wording
from forewarn.assess.post_mortem.advice import MakeForecast, no_forecast, with_numbers
from forewarn.assess.post_mortem.cause_families import FAMILIES
from forewarn.assess.post_mortem.likely_cause import LikelyCause, likely_cause
from forewarn.assess.post_mortem.log_matching import matches, worth
from forewarn.assess.post_mortem.log_paths import log_paths
from forewarn.assess.post_mortem.log_reading import Log, read_log
from forewarn.assess.post_mortem.pending_reasons import in_words
from forewarn.assess.post_mortem.report import Confidence, FailureEvidence, LogFile, LogLine, PostMortem
from forewarn.assess.similar import Similar, similar_jobs
from forewarn.assess.user_history import read_history
from forewarn.job.outcomes import POLICIES, FailurePolicy, Outcome, failure_kind
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED
from forewarn.sources.slurm.scheduler import JobDetails
from forewarn.store.base import ClusterFacts, Store

_LOG_WORTH = 0.9  # weight of a line, since a program can continue after an error
_MOST_LINES = 8  # that are quoted
_MOST_FROM_LOG = 2  # lines that count for the cause: a hundred warnings prove no more than two

ReadLogs = Callable[[], tuple[tuple[LogLine, ...], tuple[LogFile, ...]]]


def explain(
    job: Job,
    store: Store | None = None,
    *,
    details: JobDetails | None = None,
    log: Path | Log | None = None,
    reads_logs: bool = True,
    risk: float | None = None,
    at: int | None = None,
    forecast: MakeForecast = no_forecast,
    policy: FailurePolicy = POLICIES["wasted"],
    sees_all: bool = True,
) -> PostMortem:
    """Explain why a job failed or is pending, or how it is doing.

    Parameters
    ----------
    store
        For its nodes, other jobs, and earlier jobs of the user.
    details
        What the scheduler knows beside the record: `Scheduler.details`.
    log
        A log to read instead of those that Slurm names; or one that was read already, on another machine.
    reads_logs
        Whether to read the logs that Slurm names. A service does not: their paths are the user's choice, and
        the service may read what the user may not.
    risk
        Of failure, for a pending or running job, where an assessor stated it.
    at
        The Unix time of the question; None is now.
    forecast
        Predicts what the job needs, for advice to one that had too little.
    policy
        Which outcomes of similar jobs count as failure.
    sees_all
        Whether the reader may see others' jobs: else they are counted only where at least five users' are.
    """
    at = int(time.time()) if at is None else at
    details = details or JobDetails()
    read_logs = partial(_logs, job, details, log, reads_logs=reads_logs)
    known_until = at if job.outcome is None else job.submit  # an ended job: what was known at its submit
    similar = Similar()
    if store is not None and job.user is not None:
        facts = store.clusters().get(job.cluster, ClusterFacts())
        past = read_history(store, job.cluster, known_until, facts, [job.user])
        similar = similar_jobs(past, job, policy, at=known_until)
    if job.outcome is not None:
        return _ended(job, store, details, read_logs, similar, forecast, sees_all)
    if job.start is None or job.state == "PENDING":
        return _pending(job, details, similar, risk, at)
    return _running(job, details, read_logs, similar, risk, at)


def _report(
    job: Job, phase: str, likely: LikelyCause, evidence: Iterable[FailureEvidence], **more: object
) -> PostMortem:
    kind = None
    if job.outcome is not None:
        kind = failure_kind(
            Outcome(job.outcome), job.exit_code, job.exit_signal, ran_to_limit=job.ran_to_limit
        )
        if likely.family == "killed":
            kind = FAMILIES["killed"].kind  # a kill alone is no evidence of a limit
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
        family=likely.family,
        cause=likely.cause,
        confidence=likely.confidence,
        evidence=tuple(evidence),
        what_to_do=likely.to_do,
        **more,  # type: ignore[arg-type]
    )


def _ended(
    job: Job,
    store: Store | None,
    details: JobDetails,
    read_logs: ReadLogs,
    similar: Similar,
    forecast: MakeForecast,
    sees_all: bool,
) -> PostMortem:
    lines, files = read_logs()
    evidence = [
        *record_evidence.of_state(job),
        *record_evidence.of_exit(job),
        *record_evidence.of_steps(job, details.steps),
        *_of_log(lines),
        *record_evidence.of_use(job),
        *(() if store is None else surroundings.around(store, job, sees_all=sees_all)),
    ]
    likely = likely_cause(job, evidence, lines)
    if likely.family is None and (at_once := list(record_evidence.at_once(job, details.steps))):
        likely = likely_cause(job, evidence, lines, at_once)
        evidence += at_once
    to_do = (*with_numbers(job, likely.family, forecast), *likely.to_do)
    beside_log = [fact for fact in evidence if fact.source != "log"]  # lines of the log are quoted apart
    return _report(
        job,
        "ended",
        replace(likely, to_do=to_do),
        beside_log,
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


def _pending(job: Job, details: JobDetails, similar: Similar, risk: float | None, at: int) -> PostMortem:
    reason = in_words(job.reason)
    evidence = [
        FailureEvidence(source="scheduler", what=wording.pending_reason(job.reason)),
        FailureEvidence(source="record", what=wording.pending_for(max(0, at - job.submit))),
    ]
    to_do = [reason.to_do.replace("JOBID", job.job_id)] if reason.to_do else []
    estimate = details.start_estimate if details.start_estimate and details.start_estimate > at else None
    if estimate is not None:
        evidence.append(FailureEvidence(source="scheduler", what=wording.start_estimate(estimate - at)))
    elif not reason.never:
        evidence.append(FailureEvidence(source="scheduler", what=wording.NO_START_ESTIMATE))
    likely = LikelyCause(None, wording.pending(reason.words), reason.confidence, tuple(to_do))
    return _report(
        job,
        "pending",
        likely,
        [*evidence, *_of_risk(risk)],
        start_estimate=estimate,
        risk=risk,
        similar=similar.jobs,
        tally=similar.tally,
        notes=details.notes,
    )


def _running(
    job: Job, details: JobDetails, read_logs: ReadLogs, similar: Similar, risk: float | None, at: int
) -> PostMortem:
    assert job.start is not None
    lines, files = read_logs()
    run_time = max(0, at - job.start - (job.suspended or 0))
    limit = job.time_limit if job.time_limit and job.time_limit < UNLIMITED else None
    error = next((line for line in lines if not line.follow_up), None)
    likely = LikelyCause(
        error.family if error else None,
        wording.running(error.what if error else None),
        Confidence.POSSIBLE if error else Confidence.CERTAIN,
        (wording.CHECK_PROGRESS,) if error else (),
    )
    return _report(
        job,
        "running",
        likely,
        [FailureEvidence(source="use", what=wording.run_time(run_time, limit)), *_of_risk(risk)],
        log=lines,
        logs=files,
        risk=risk,
        steps=details.steps,
        similar=similar.jobs,
        tally=similar.tally,
        notes=details.notes,
    )


def _of_risk(risk: float | None) -> list[FailureEvidence]:
    if risk is None:
        return []
    return [FailureEvidence(source="assessment", what=wording.risk_of_failure(risk))]


def _logs(
    job: Job, details: JobDetails, log: Path | Log | None, *, reads_logs: bool
) -> tuple[tuple[LogLine, ...], tuple[LogFile, ...]]:
    """Read the logs of a job: the lines that match a known error, and the files that were looked for."""
    if log is None and job.start is None:
        return (), ()  # it never ran
    if isinstance(log, Log):
        matched = matches(log)
        file = LogFile(path=str(log.path), read=True, size=log.size, whole=log.whole, in_time=matched.in_time)
        return tuple(_most_telling(matched.lines)), (file,)
    paths = [log] if log is not None else log_paths(job, script=details.script, outputs=details.outputs)
    guessed = log is None and not (details.outputs or details.script or job.submit_line)
    if log is None and not reads_logs:
        why = wording.NOT_READ
        return (), tuple(LogFile(path=str(path), read=False, why_not=why, guessed=guessed) for path in paths)
    lines: list[LogLine] = []
    files: list[LogFile] = []
    for path in paths:
        try:
            found = read_log(path)
        except OSError as error:
            why = error.strerror or "not readable"
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
    return tuple(_most_telling(lines)), tuple(files)


def _most_telling(lines: Sequence[LogLine]) -> list[LogLine]:
    return sorted(lines, key=lambda line: (line.follow_up, -worth(line)))[:_MOST_LINES]
