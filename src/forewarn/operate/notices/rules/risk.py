"""The rule `risk`: a pending or running job is likely to fail."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.assess.assessment import Assessment
from forewarn.job.outcomes import Outcome
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


class RiskRule(NoticeRule):
    """A warning about a job that has not ended: to its owner, and to operators where much is at stake."""

    name = "risk"
    predicts = True
    lapses = True

    def cases(self, changes: SiteChanges) -> Iterator[Case]:
        """Yield the jobs whose risk has reached the threshold."""
        for one in changes.assessments:
            if one.job_id is None or one.failure is None or not one.failure.warns:
                continue
            limit = one.run_time.limit if one.run_time else None
            memory = one.resources.memory_asked if one.resources else None
            yield Case(
                rule=self.name,
                cluster=one.cluster,
                subject=job_root(one.job_id),
                user=one.user,
                bulk=bulk_key(one.user, one.name, one.partition, limit, memory),
                submit=one.submit,
                # Of a pending array one task is assessed, for all.
                hours=dict.fromkeys((one.job_id, *self.setting.pending_tasks(one)), one.hours_at_risk or 0.0),
                about=one,
            )

    def merge(self, case: Case, other: Case) -> None:
        """Add jobs; the message describes the one with the most hours at risk, if possible with reasons."""
        case.hours |= other.hours
        if _weight(other.about) > _weight(case.about):
            case.about = other.about

    def message(self, case: Case, recipient: Recipient) -> Message:
        """Write the risk, the first reason, the first advice, and the command to run."""
        return wording.risk_message(
            case.about, jobs=len(case.hours), hours=case.total_hours, for_owner=not recipient.operates
        )

    def headline(self, case: Case) -> str:
        """Write the job, its risk and its hours."""
        return wording.risk_title(case.about, jobs=len(case.hours), hours=case.total_hours)

    def described_job(self, case: Case) -> str | None:
        """Return the job with the most hours at risk."""
        return case.about.job_id  # type: ignore[no-any-return]

    def judge(self, notice: Notice, changes: SiteChangesIndex) -> Judgement | None:
        """Judge by the job's end; one that was changed or cancelled says nothing about the warning."""
        job = changes.ended.get((notice.cluster, notice.job_id or ""))
        if job is None or (job.end is not None and job.end < notice.at):
            return None
        if job.outcome == Outcome.CANCELLED and not job.ran_to_limit:
            return Judgement(None, changed=True)
        if is_changed(dict(notice.request), job):
            return Judgement(None, changed=True)
        return Judgement(self.setting.policy.failed(job), changed=False)


def _weight(one: Assessment) -> tuple[bool, float]:
    return bool(one.reasons or one.advice), one.hours_at_risk or 0.0
