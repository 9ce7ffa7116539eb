"""The rule `failure`: a job has failed; what happened, and what to change."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.job.record import Job
from forewarn.operate.notices import wording
from forewarn.operate.notices.notice import Message, Notice
from forewarn.operate.notices.recipients import Recipient
from forewarn.operate.notices.rules.base import (
    Case,
    Judgement,
    NoticeRule,
    SiteChanges,
    SiteChangesIndex,
    bulk_key,
    is_changed,
    job_root,
)


class FailureRule(NoticeRule):
    """A short post-mortem of a failed job, once for an array or a bulk."""

    name = "failure"
    predicts = False
    lapses = False

    def cases(self, changes: SiteChanges) -> Iterator[Case]:
        """Yield the jobs that failed by the site's failure policy."""
        for job in changes.ended:
            if not self.setting.policy.failed(job) or job.user is None:
                continue
            request = (job.cpus_asked, job.nodes_asked, job.gpus_asked, job.memory_asked, job.time_limit)
            yield Case(
                rule=self.name,
                cluster=job.cluster,
                subject=job_root(job.job_id),
                user=job.user,
                bulk=bulk_key(job.user, job.name, job.partition, job.qos, *request),
                submit=job.submit,
                hours={job.job_id: lost_hours(job)},
                about=job,
            )

    def merge(self, case: Case, other: Case) -> None:
        """Add jobs; the message describes the one that lost the most hours."""
        case.hours |= other.hours
        if lost_hours(other.about) > lost_hours(case.about):
            case.about = other.about

    def message(self, case: Case, recipient: Recipient) -> Message:
        """Write what happened and what to change."""
        return wording.failure_message(
            case.about,
            self.setting.explain(case.about),
            jobs=len(case.hours),
            hours=case.total_hours,
            for_owner=not recipient.operates,
        )

    def headline(self, case: Case) -> str:
        """Write the job, its outcome and its hours."""
        return wording.failure_title(case.about, jobs=len(case.hours), hours=case.total_hours)

    def described_job(self, case: Case) -> str | None:
        """Return the job that lost the most hours."""
        return case.about.job_id  # type: ignore[no-any-return]

    def judge(self, notice: Notice, changes: SiteChangesIndex) -> Judgement | None:
        """Look for a later job of the same user and name with another request; a fact cannot be wrong."""
        name = notice.request.get("name")
        for job in changes.ended_of.get((notice.cluster, notice.user), ()):
            if job.submit > notice.at and job.name == name and is_changed(dict(notice.request), job):
                return Judgement(None, changed=True)
        return None


def lost_hours(job: Job) -> float:
    """Compute the node hours that a failed job used."""
    return (job.run_time or 0) * (job.nodes_given or job.nodes_asked or 1) / 3600
