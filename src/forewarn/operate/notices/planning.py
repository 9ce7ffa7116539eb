"""Planning of notices: cases become notices by rank, within budgets, once for a recipient and subject."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from forewarn.assess.node_health.records import Health
from forewarn.job.record import Job
from forewarn.operate.notices import wording
from forewarn.operate.notices.known_notices import MOST, KnownNotices
from forewarn.operate.notices.notice import DIGEST, Message, Notice, NoticeState, notice_id
from forewarn.operate.notices.outbox import Outbox
from forewarn.operate.notices.recipients import Recipient
from forewarn.operate.notices.rules import RULES, Case, NoticeRule, RuleSetting, SiteChanges, SiteChangesIndex
from forewarn.operate.notices.rules.base import BULK_GAP, request_of
from forewarn.operate.notices.scoring import SILENT_FOR, is_ignored, measured_precision
from forewarn.operate.notices.silences import AUTOMATIC, Silence, Silences
from forewarn.operate.notices.subscriptions import read_subscription
from forewarn.store.people import PeopleStore

log = logging.getLogger(__name__)
CaseKey = tuple[str, str, str]  # rule, cluster, subject
FindJob = Callable[[str, str], Job | None]  # by cluster and job id

MOST_CASES = 2000  # that are kept to add further jobs to them
MOST_HELD = 100  # notices of one recipient for a digest; others are only counted
MOST_IN_DIGEST = 20  # notices that a digest lists
REMEMBERED = 7 * 86400  # seconds for which a node that was reported as sick is not reported again


class Planner:
    """What is to be sent to whom. Used by one thread."""

    def __init__(
        self,
        setting: RuleSetting,
        people: PeopleStore,
        *,
        timezone: str = "UTC",
        find_job: FindJob = lambda _cluster, _job_id: None,
    ) -> None:
        self._config, self._people, self._find_job = setting.config, people, find_job
        self._zone = ZoneInfo(timezone)
        self.outbox, self.silences = Outbox(people), Silences(people)
        self.rules: dict[str, NoticeRule] = {rule.name: rule(setting) for rule in RULES}
        self.notices = KnownNotices(self.outbox.newest(MOST))
        self._cases: OrderedDict[CaseKey, Case] = OrderedDict()
        self._case_of_bulk: dict[tuple[str, str, str], CaseKey] = {}
        self._sick: set[tuple[str, str]] | None = None  # None: before the first look
        self._uncounted: Counter[tuple[str, str]] = Counter()  # by recipient and day: more than MOST_HELD
        for notice in self.notices:
            if notice.state is NoticeState.SENDING:  # the process ended while it was handed over
                self.update(notice, state=NoticeState.UNCERTAIN, sent_at=notice.at)

    def update(self, notice: Notice, **changes: Any) -> Notice:
        """Change a notice, in the outbox first; one that was erased there stays erased."""
        stored = self.outbox.get(notice.id)  # from which the name of an erased user may be gone
        if stored is None:
            self.notices.drop(notice)
            return replace(notice, **changes)
        changed = replace(stored, **changes)
        self._save(changed)
        return changed

    def is_kept(self, notice: Notice) -> bool:
        """Check whether a notice is still in the outbox; if its user was erased, forget it here too."""
        is_kept = self.outbox.get(notice.id) is not None
        if not is_kept:
            self.notices.drop(notice)
        return is_kept

    def _save(self, notice: Notice) -> None:
        self.outbox.save(notice)
        self.notices.keep(notice)

    # --- changes of the site -----------------------------------------------------------------------------

    def take(self, changes: SiteChanges, at: int) -> None:
        """Judge earlier notices by what is new, and write new ones, those with the most hours first."""
        self._judge(SiteChangesIndex(changes), at)
        touched = list(self._gather(self._only_new_sickness(changes, at)))
        silences = self.silences.active(at) if touched else []
        for case in sorted(touched, key=lambda one: one.sort_key, reverse=True):
            rule = self.rules[case.rule]
            for recipient in rule.recipients(case):
                try:
                    self._write(rule, case, recipient, silences, at)
                except Exception:  # one broken record must not cost the others their notice
                    log.exception("a notice of the rule %s could not be written", rule.name)
        self._trim()

    def _gather(self, changes: SiteChanges) -> Iterator[Case]:
        """Merge new jobs into the cases of their arrays and bulks; yield each changed case once."""
        touched: dict[CaseKey, Case] = {}
        for rule in self.rules.values():
            for new in rule.cases(changes):
                key = self._key_of(new, touched)
                case = self._cases.get(key)
                if case is None:
                    case = self._cases[key] = new
                else:
                    rule.merge(case, new)
                    if new.submit is not None:
                        case.submit = max(case.submit or 0, new.submit)
                self._cases.move_to_end(key)
                if case.bulk is not None:
                    self._case_of_bulk[case.rule, case.cluster, case.bulk] = key
                touched[key] = case
        yield from touched.values()

    def _key_of(self, new: Case, touched: dict[CaseKey, Case]) -> CaseKey:
        """Find the case of the same array or bulk; cases without a submit merge if both are new."""
        key = (new.rule, new.cluster, new.subject)
        if key in self._cases and (new.submit is not None or key in touched):
            return key
        other = self._case_of_bulk.get((new.rule, new.cluster, new.bulk or ""))
        if other is not None and (case := self._cases.get(other)) is not None:
            if new.submit is None and other in touched:
                return other
            if new.submit is not None and abs(new.submit - (case.submit or 0)) < BULK_GAP:
                return other
        self._cases.pop(key, None)
        return key

    def _only_new_sickness(self, changes: SiteChanges, at: int) -> SiteChanges:
        """Leave out nodes that were sick before; after a restart, those that were reported recently."""
        if not changes.health:
            return changes
        if self._sick is None:
            self._sick = {
                (one.cluster, node)
                for one in self.notices
                if one.rule == "node" and one.judged_at is None and one.at > at - REMEMBERED
                for node in one.request.get("nodes", ())
            }
        now = {(one.cluster, one.node): one for one in changes.health}
        sick = {key for key, one in now.items() if one.health is Health.SICK}
        fresh = [now[key] for key in sorted(sick - self._sick)]
        self._sick = (self._sick - now.keys()) | sick
        return replace(changes, health=fresh)

    # --- writing notices ---------------------------------------------------------------------------------

    def _write(
        self, rule: NoticeRule, case: Case, recipient: Recipient, silences: Sequence[Silence], at: int
    ) -> None:
        who = str(recipient)
        subject = case.subject if case.submit is not None else f"{case.subject} {self._day(at)}"
        new_id = notice_id(rule.name, who, case.cluster, subject)
        if self._is_known(new_id, rule, case, who) or not self._wants(recipient, rule.name):
            return
        nodes = () if case.submit is not None else tuple(case.hours)
        if any(one.applies(rule=rule.name, recipient=who, user=case.user, nodes=nodes) for one in silences):
            return
        is_within = self._sent_on(who, self._day(at)) < self._budget(recipient)
        if not is_within and len(self._held(who)) >= MOST_HELD:
            self._uncounted[who, self._day(at)] += 1
            return
        job_id = rule.described_job(case)
        notice = Notice(
            id=new_id,
            rule=rule.name,
            recipient=who,
            cluster=case.cluster,
            subject=subject,
            at=at,
            message=rule.message(case, recipient) if is_within else Message(title=rule.headline(case)),
            hours=case.total_hours,
            user=case.user,
            job_id=job_id,
            jobs=len(case.hours),
            bulk=case.bulk if case.submit is not None else None,
            submit=case.submit,
            request=self._request(case, job_id),
            state=NoticeState.WAITING if is_within else NoticeState.HELD,
        )
        self._save(notice)

    def _is_known(self, new_id: str, rule: NoticeRule, case: Case, who: str) -> bool:
        if self.notices.get(new_id) is not None or self.outbox.get(new_id) is not None:
            return True
        return case.bulk is not None and any(
            one.bulk == case.bulk
            and (one.rule, one.cluster) == (rule.name, case.cluster)
            and abs((one.submit or 0) - (case.submit or 0)) < BULK_GAP
            for one in self.notices.of(who)
        )

    def _request(self, case: Case, job_id: str | None) -> dict[str, Any]:
        """Return what the notice is judged by later."""
        if job_id is None:
            out = [node.node for node in case.about if not node.in_service]
            return {"nodes": [node.node for node in case.about], "out_of_service": out}
        job = case.about if isinstance(case.about, Job) else self._find_job(case.cluster, job_id)
        return {} if job is None else {"name": job.name, **request_of(job)}

    def _wants(self, recipient: Recipient, rule: str) -> bool:
        if recipient.operates:
            return True
        return rule in read_subscription(self._people, self._config, recipient.name).rules

    def _budget(self, recipient: Recipient) -> int:
        return self._config.operator_budget if recipient.operates else self._config.budget

    def _sent_on(self, who: str, day: str) -> int:
        beyond = (NoticeState.HELD, NoticeState.DIGESTED, NoticeState.DROPPED)
        return sum(
            one.rule != DIGEST and one.state not in beyond and self._day(one.at) == day
            for one in self.notices.of(who)
        )

    def _held(self, who: str) -> list[Notice]:
        return [one for one in self.notices.of(who) if one.state is NoticeState.HELD]

    def write_digests(self, at: int) -> None:
        """Write one digest for each recipient with notices beyond the budget of a day that has ended."""
        now = datetime.fromtimestamp(at, self._zone)
        if now.hour < self._config.digest_hour:
            return
        today = self._day(at)
        held: dict[tuple[str, str], list[Notice]] = defaultdict(list)
        for one in self.notices:
            if one.state is NoticeState.HELD and self._day(one.at) < today:
                held[one.recipient, self._day(one.at)].append(one)
        for (who, day), notices in held.items():
            self._write_digest(who, day, notices, at)

    def _write_digest(self, who: str, day: str, notices: list[Notice], at: int) -> None:
        notices.sort(key=lambda one: -(one.hours or 0.0))
        others = len(notices) - MOST_IN_DIGEST + self._uncounted.pop((who, day), 0)
        hours = sum(one.hours or 0.0 for one in notices)
        digest = Notice(
            id=notice_id(DIGEST, who, "", day),
            rule=DIGEST,
            recipient=who,
            cluster=notices[0].cluster,
            subject=day,
            at=at,
            message=wording.digest_message(notices[:MOST_IN_DIGEST], max(0, others), hours),
            hours=hours,
            jobs=len(notices),
        )
        # The digest first: after a crash in between the rest is found held, and the digest is there.
        if self.outbox.get(digest.id) is None:
            self._save(digest)
        for one in notices:
            self.update(one, state=NoticeState.DIGESTED, digest=digest.id)

    # --- judging -----------------------------------------------------------------------------------------

    def _judge(self, changes: SiteChangesIndex, at: int) -> None:
        unsent = (NoticeState.HELD, NoticeState.WAITING)
        for notice in self.notices:
            rule = self.rules.get(notice.rule)
            if rule is None or notice.judged_at is not None:
                continue
            judgement = rule.judge(notice, changes)
            if judgement is None:
                continue
            is_late = rule.lapses and notice.state in unsent
            self.update(
                notice,
                came_true=judgement.came_true,
                changed=judgement.changed,
                judged_at=at,
                state=NoticeState.DROPPED if is_late else notice.state,
                problem="the job ended before it could be sent" if is_late else notice.problem,
            )

    def review(self, at: int) -> None:
        """Silence a rule that nobody heeds for its recipient, and one that breaks its promise for all."""
        silences, acknowledged = self.silences.all(), self.outbox.acknowledgements()
        groups: dict[tuple[str, str], list[Notice]] = defaultdict(list)
        for one in self.notices:
            if one.rule in self.rules:
                groups[one.rule, one.recipient].append(one)
        for (rule, who), notices in groups.items():
            since = _counted_since(silences, rule, who, at)
            if since is not None and is_ignored(notices, acknowledged, at=at, since=since):
                self._silence(rule, who, wording.ignored_reason(rule, 5), at)
        for name, one_rule in self.rules.items():
            since = _counted_since(silences, name, None, at)
            if not one_rule.predicts or since is None:
                continue
            precision = measured_precision(self.notices, name, since=since)
            if precision.breaks(self._config.promise):
                reason = wording.wrong_reason(
                    name, precision.came_true, precision.judged, self._config.promise
                )
                self._silence(name, None, reason, at)

    def _silence(self, rule: str, who: str | None, reason: str, at: int) -> None:
        log.warning("notices of the rule %s are silenced for %s: %s", rule, who or "all", reason)
        self.silences.add(at=at, by=AUTOMATIC, reason=reason, until=at + SILENT_FOR, rule=rule, recipient=who)

    # --- upkeep ------------------------------------------------------------------------------------------

    def forget(self, at: int) -> None:
        """Delete notices that are kept no longer."""
        before = at - self._config.kept * 86400
        self.outbox.forget(before)
        self.silences.forget(before)
        self.notices.forget(before)

    def _trim(self) -> None:
        while len(self._cases) > MOST_CASES:
            key, case = self._cases.popitem(last=False)
            bulk = (case.rule, case.cluster, case.bulk or "")
            if self._case_of_bulk.get(bulk) == key:
                del self._case_of_bulk[bulk]

    def _day(self, at: int) -> str:
        return datetime.fromtimestamp(at, self._zone).strftime("%Y-%m-%d")


def _counted_since(silences: Sequence[Silence], rule: str, who: str | None, at: int) -> int | None:
    """Return from when a rule is counted: since its last automatic silence ended; None while one holds."""
    own = [one for one in silences if (one.by, one.rule, one.recipient) == (AUTOMATIC, rule, who)]
    if any(one.is_active(at) for one in own):
        return None
    return max((one.ended_at(at) or 0 for one in own), default=0)
