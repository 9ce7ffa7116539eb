"""Act on Slurm for a caller: submit, cancel, resubmit, with the caller's own token.

The service's own rights are never used for this: Slurm itself decides what the caller may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from forewarn.assess.assessment import Change
from forewarn.config import Config, is_user_name
from forewarn.errors import (
    ControllerDownError,
    ForbiddenError,
    RefusedError,
    SchedulerError,
    ScriptUnknownError,
    SlurmTokenNeededError,
    UnknownJobError,
    UnreachableError,
    UsageError,
)
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.resubmission import repeated_submission, with_submit_line
from forewarn.sources.slurm.connect import choose_scheduler, connect
from forewarn.sources.slurm.job_requests import LOGIN_ENVIRONMENT
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurm.script_submission import submission_from_script

_TRIES = 2  # few, as a person waits
_UNSPECIFIED = frozenset({-1, 1})  # what slurmrestd says of some requests while slurmctld is away


@dataclass(frozen=True, slots=True)
class Actor:
    """On whose behalf Slurm is asked to act."""

    user: str
    slurm_token: str | None = None


def actor_of(identity: Identity) -> Actor:
    """Return on whose behalf a caller acts; helpers only view, and a program without a user has no jobs."""
    if identity.role is Role.HELPER:
        raise ForbiddenError(f"{identity.user} has the role helper, which views all jobs and changes none")
    if not is_user_name(identity.user) or ":" in identity.user:
        raise ForbiddenError(f"{identity.user} is no user of the cluster: create its token with --user")
    return Actor(identity.user, identity.slurm_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job that Slurm accepted."""

    cluster: str
    job_id: str
    changes: tuple[Change, ...] = ()  # applied to the script of a job that is submitted again
    resubmits: str | None = None  # the job that it is a resubmission of


@contextmanager
def acting_scheduler(config: Config, actor: Actor) -> Iterator[Scheduler]:
    """Connect to Slurm as the actor."""
    try:
        chosen = choose_scheduler(config)
    except UsageError as error:
        raise UnreachableError(f"this service has no Slurm to act on: {error}") from None
    if chosen == "commands":
        raise UsageError(
            "this service asks Slurm by its commands, which act as the service itself: to submit and cancel "
            "for callers it needs slurmrestd (setting slurmrestd)"
        )
    if chosen == "slurmrestd" and not actor.slurm_token:
        raise SlurmTokenNeededError(
            "this acts on Slurm, which needs your own token: send it as X-SLURM-USER-TOKEN "
            "(`scontrol token` prints one), or paste it into your session"
        )
    own = replace(config, slurm_token=actor.slurm_token, slurm_token_file=None, slurm_user=actor.user)
    # No variable of the service's own environment, in which its token may stand.
    with closing(connect(own, environ={}, retry=RetryPolicy(tries=_TRIES))) as scheduler:
        try:
            yield scheduler
        except RefusedError as error:
            if error.code in _UNSPECIFIED and not _answers(scheduler):
                raise ControllerDownError(f"slurmctld does not answer ({error}): is it running?") from None
            raise


def _answers(scheduler: Scheduler) -> bool:
    try:
        return scheduler.ping()
    except SchedulerError:
        return False


def submit_script(
    config: Config,
    actor: Actor,
    script: str,
    *,
    options: Sequence[str] = (),
    work_dir: str,
    environment: dict[str, str] | None = None,
    name: str | None = None,
) -> SubmittedJob:
    """Submit a script as sbatch would; `UsageError` names each option that cannot be passed on.

    Without `environment`, the job gets the login environment of its user.
    """
    submission = submission_from_script(
        script,
        options,
        work_dir=work_dir,
        name=name or "sbatch",  # as sbatch names what it reads from standard input
        environment=environment or LOGIN_ENVIRONMENT,
    )
    with acting_scheduler(config, actor) as scheduler:
        return SubmittedJob(cluster=scheduler.cluster, job_id=scheduler.submit(submission))


def cancel_job(config: Config, actor: Actor, job_id: str) -> str:
    """Cancel a job, and return its cluster; Slurm refuses another user's."""
    with acting_scheduler(config, actor) as scheduler:
        scheduler.cancel(job_id)
        return scheduler.cluster


def resubmit_job(
    config: Config,
    actor: Actor,
    job_id: str,
    *,
    changes: Sequence[Change] = (),
    script: str | None = None,
    may_see: Callable[[Job], bool],
) -> SubmittedJob:
    """Submit a job again, with changes to its script. It is a new job, never a requeue of the old one.

    Raises `ScriptUnknownError` where the script is not known and none was sent, `ForbiddenError` for another
    user's script: it would run with the rights of the actor, who may be root.
    """
    with acting_scheduler(config, actor) as scheduler:
        jobs = [job for batch in scheduler.job(job_id) for job in to_records(batch.frame, Job)]
        jobs = sorted(filter(may_see, jobs), key=lambda job: (job.submit, job.job_id), reverse=True)
        if not jobs:
            raise UnknownJobError(f"no job {job_id} that you may see")
        if script is None:
            if jobs[0].user != actor.user:
                raise ForbiddenError(
                    f"job {job_id} is {jobs[0].user}'s, and its script would run as {actor.user}: read it, "
                    "and send it as `script` to submit it as your own"
                )
            details = scheduler.details(job_id)
            if details.script is None and "_" in job_id:  # a pending array keeps it once for all tasks
                details = scheduler.details(job_id.partition("_")[0])
            script = details.script
            if script is None:
                raise ScriptUnknownError(
                    f"job {job_id}: its script is neither with the controller nor in accounting "
                    "(AccountingStoreFlags=job_script). Send the script to submit it again"
                    + "".join(f"; {note}" for note in details.notes)
                )
        latest = [job for job in jobs if job.submit == jobs[0].submit]  # ids are used again
        submission = repeated_submission(
            with_submit_line(scheduler, latest), script, changes, tasks=job_id.partition("_")[2] or None
        )
        return SubmittedJob(
            cluster=scheduler.cluster,
            job_id=scheduler.submit(submission),
            changes=tuple(changes),
            resubmits=job_id,
        )
