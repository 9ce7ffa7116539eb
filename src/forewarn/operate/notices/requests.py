"""What people ask of notices: list, acknowledge, silence, lift, subscribe; and who may do it."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from forewarn.config import NoticesConfig
from forewarn.config.notices import RULES
from forewarn.errors import ForbiddenError, UnknownNoticeError, UsageError
from forewarn.operate.access.identity import Identity
from forewarn.operate.notices.notice import DELIVERED, Notice, hash_token
from forewarn.operate.notices.outbox import Outbox
from forewarn.operate.notices.plain_text import plain
from forewarn.operate.notices.recipients import Recipient
from forewarn.operate.notices.scoring import MeasuredPrecision, measured_precision
from forewarn.operate.notices.silences import AUTOMATIC, Silence, Silences
from forewarn.operate.notices.subscriptions import Subscription, read_subscription, save_subscription
from forewarn.store.people import PeopleStore

MOST_READ = 5000  # newest notices among which those of one person are looked for
LONGEST_SILENCE = 366 * 86400  # seconds


@dataclass(frozen=True, slots=True)
class ListedNotice:
    """A notice with its acknowledgement."""

    notice: Notice
    acknowledged_at: int | None

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return self.notice.to_public_json(self.acknowledged_at)


class NoticeRequests:
    """The requests of people about notices, for routes and commands."""

    def __init__(self, config: NoticesConfig, people: PeopleStore) -> None:
        self._config, self._people = config, people
        self._outbox, self._silences = Outbox(people), Silences(people)

    # --- notices -----------------------------------------------------------------------------------------

    def notices(
        self, identity: Identity, *, limit: int = 100, rule: str | None = None, open_only: bool = False
    ) -> list[ListedNotice]:
        """List the newest notices that a caller may see: its own; with a view of all jobs, all."""
        _check_rule(rule)
        acknowledged = self._outbox.acknowledgements()
        found = [
            ListedNotice(one, acknowledged.get(one.id))
            for one in reversed(self._outbox.newest(MOST_READ))
            if _sees(identity, one) and rule in (None, one.rule)
        ]
        if open_only:
            found = [one for one in found if one.acknowledged_at is None and one.notice.state in DELIVERED]
        return found[:limit]

    def precision(self) -> list[MeasuredPrecision]:
        """Return the measured precision of each rule."""
        notices = self._outbox.newest(MOST_READ)
        return [measured_precision(notices, rule) for rule in RULES if rule != "failure"]

    def notice(self, identity: Identity, notice_id: str) -> ListedNotice:
        """Return a notice that a caller may see."""
        notice = self._outbox.get(notice_id)
        if notice is None or not _sees(identity, notice):
            raise _unknown("notice", notice_id)
        return ListedNotice(notice, self._outbox.acknowledged_at(notice_id))

    def acknowledge(self, identity: Identity, notice_id: str, *, at: int) -> ListedNotice:
        """Acknowledge a notice as its recipient, or as an operator."""
        notice = self.notice(identity, notice_id).notice
        if not _is_own(identity, notice) and not identity.may_operate:
            raise ForbiddenError("only the recipient or an operator may acknowledge a notice")
        return ListedNotice(notice, self._outbox.acknowledge(notice_id, identity.user, at))

    def by_token(self, notice_id: str, token: str) -> ListedNotice:
        """Return a notice to whoever has the token of its link; reading acknowledges nothing."""
        notice = self._outbox.get(notice_id)
        expected = "" if notice is None or notice.token_hash is None else notice.token_hash
        if not secrets.compare_digest(expected, hash_token(token)) or notice is None:
            raise UnknownNoticeError("no such notice, or the link is not complete: open it as it was sent")
        return ListedNotice(notice, self._outbox.acknowledged_at(notice_id))

    def acknowledge_by_token(self, notice_id: str, token: str, *, at: int) -> ListedNotice:
        """Acknowledge a notice by the token of its link, which allows nothing else."""
        found = self.by_token(notice_id, token)
        return ListedNotice(found.notice, self._outbox.acknowledge(notice_id, "link", at))

    # --- silences ----------------------------------------------------------------------------------------

    def silences(self, identity: Identity, *, at: int, past: bool = False) -> list[Silence]:
        """List the silences that concern a caller, newest first; those of all for operators and helpers.

        To others, who set it and why is shown of their own and of Forewarn's only.
        """
        return [
            _for_caller(identity, one)
            for one in reversed(self._silences.all())
            if (past or one.is_active(at)) and _concerns(identity, one)
        ]

    def silence(
        self,
        identity: Identity,
        *,
        at: int,
        until: int | None = None,
        rule: str | None = None,
        user: str | None = None,
        node: str | None = None,
        recipient: str | None = None,
        reason: str = "",
    ) -> Silence:
        """Silence notices: a user one's own, by rule; an operator anything that is named."""
        _check_rule(rule)
        if until is not None and not at < until <= at + LONGEST_SILENCE:
            raise UsageError("until: must be a time from now on, within a year")
        if not identity.may_operate:
            if user not in (None, identity.user) or node or recipient not in (None, f"user:{identity.user}"):
                raise ForbiddenError("only operators may silence notices of others, or about nodes")
            recipient, user = f"user:{identity.user}", None
        elif not (rule or user or node or recipient):
            raise UsageError("say what to silence: rule, user, node or recipient")
        return self._silences.add(
            at=at,
            by=identity.user,
            reason=plain(reason) if reason else "",
            until=until,
            rule=rule,
            user=user,
            node=node,
            recipient=recipient,
        )

    def lift(self, identity: Identity, silence_id: str, *, at: int) -> Silence:
        """End a silence: one's own, or any as an operator."""
        silence = self._silences.get(silence_id)
        own = f"user:{identity.user}"
        if silence is None or not _concerns(identity, silence):
            raise _unknown("silence", silence_id)
        if silence.recipient != own and not identity.may_operate:
            raise ForbiddenError("only operators may lift a silence for others")
        if silence.lifted_at is None:
            self._silences.lift(silence, by=identity.user, at=at)
        return self._silences.get(silence_id) or silence

    # --- subscriptions -------------------------------------------------------------------------------------

    def subscription(self, identity: Identity) -> Subscription:
        """Return the rules that the caller gets mail of."""
        return read_subscription(self._people, self._config, identity.user)

    def subscribe(self, identity: Identity, rules: Collection[str], *, at: int) -> Subscription:
        """Set the rules that the caller gets mail of; an empty list opts out."""
        return save_subscription(self._people, self._config, identity.user, rules, at=at)


def _is_own(identity: Identity, notice: Notice) -> bool:
    return notice.recipient == str(Recipient("user", identity.user))


def _sees(identity: Identity, notice: Notice) -> bool:
    return identity.sees_all or _is_own(identity, notice)


def _concerns(identity: Identity, silence: Silence) -> bool:
    """Check whether a caller may know of a silence: one of its own notices, or about no other user."""
    own = silence.recipient in (None, str(Recipient("user", identity.user)))
    return identity.sees_all or (own and silence.user in (None, identity.user))


def _for_caller(identity: Identity, silence: Silence) -> Silence:
    if identity.sees_all:
        return silence
    known = (None, identity.user, AUTOMATIC)
    if silence.by not in known:
        silence = replace(silence, by="", reason="")
    return silence if silence.lifted_by in known else replace(silence, lifted_by="")


def _check_rule(rule: str | None) -> None:
    if rule is not None and rule not in RULES:
        raise UsageError(f"rule: no such rule {plain(rule, 60)!r}; choose from {', '.join(RULES)}")


def _unknown(what: str, key: str) -> UnknownNoticeError:
    return UnknownNoticeError(f"no {what} {plain(key, 60)!r} that you may see")
