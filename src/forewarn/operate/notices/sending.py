"""Sending of waiting notices: by rank, over one connection for each channel, with back-off, at most once."""

from __future__ import annotations

import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from forewarn.config import Config
from forewarn.errors import DeliveryError, ForewarnError
from forewarn.operate.notices import wording
from forewarn.operate.notices.delivery import Letter, NoticeChannel
from forewarn.operate.notices.mail import MailChannel
from forewarn.operate.notices.notice import DIGEST, Notice, NoticeState, hash_token
from forewarn.operate.notices.plain_text import plain
from forewarn.operate.notices.planning import Planner
from forewarn.operate.notices.recipients import Recipient, mail_address
from forewarn.operate.notices.scoring import measured_precision
from forewarn.operate.notices.webhook import WebhookChannel

log = logging.getLogger(__name__)
FIRST_WAIT, LONGEST_WAIT = 60, 3600  # seconds between tries
GIVE_UP_AFTER = 86400  # seconds after which a notice is no longer tried


@dataclass(slots=True)
class ChannelStatus:
    """How a channel does: its failures in a row, and when it is tried next."""

    failures: int = 0
    next_try: int = 0
    problem: str | None = None


def open_channel(config: Config, name: str) -> NoticeChannel:
    """Return the channel of a name: mail, or a webhook."""
    if name == "mail":
        return MailChannel(config.notices)
    hooks = {f"webhook:{hook.name}": hook for hook in config.notices.webhooks}
    if name not in hooks:
        raise DeliveryError(f"{name}: no longer configured")
    return WebhookChannel(hooks[name])


class NoticeSender:
    """The waiting notices of a planner on their way. Used by one thread."""

    def __init__(
        self,
        config: Config,
        planner: Planner,
        *,
        open_channel: Callable[[Config, str], NoticeChannel] = open_channel,
    ) -> None:
        self._config, self._planner, self._open_channel = config, planner, open_channel
        self.channels: defaultdict[str, ChannelStatus] = defaultdict(ChannelStatus)
        self.sent: Counter[str] = Counter()  # by rule

    def send(self, at: int, *, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Send what is due, most hours first; a channel that fails is tried again later."""
        due: dict[str, list[Notice]] = defaultdict(list)
        for notice in self._planner.notices:
            if notice.state is NoticeState.WAITING:
                if at - notice.at > GIVE_UP_AFTER:
                    problem = notice.problem or "could not be sent within a day"
                    self._planner.update(notice, state=NoticeState.FAILED, problem=problem)
                elif notice.next_try <= at:
                    due[_channel_name(notice)].append(notice)
        for name, notices in due.items():
            if self.channels[name].next_try <= at:
                notices.sort(key=lambda one: -(one.hours or 0.0))
                self._send_through(name, notices, at, is_stopping)

    def next_due(self) -> int | None:
        """Return when the next waiting notice may be tried; None where none waits."""
        waiting = [one for one in self._planner.notices if one.state is NoticeState.WAITING]
        times = [max(one.next_try, self.channels[_channel_name(one)].next_try) for one in waiting]
        return min(times, default=None)

    def _send_through(
        self, name: str, notices: list[Notice], at: int, is_stopping: Callable[[], bool]
    ) -> None:
        status = self.channels[name]
        try:
            channel = self._open_channel(self._config, name)
            channel.open()
        except ForewarnError as error:
            self._channel_failed(name, error, at)
            return
        with closing(channel):
            for notice in notices:
                if is_stopping():
                    return
                if not self._planner.is_kept(notice):
                    continue
                try:
                    self._send_one(channel, notice, at)
                except DeliveryError as error:
                    self._not_sent(notice, error, at)
                    if error.whole_channel:
                        self._channel_failed(name, error, at)
                        return
                else:
                    status.failures, status.next_try, status.problem = 0, 0, None

    def _send_one(self, channel: NoticeChannel, notice: Notice, at: int) -> None:
        recipient = Recipient.parse(notice.recipient)
        address = recipient.name if recipient.operates else mail_address(self._config.notices, recipient)
        if address is None:
            raise DeliveryError("the recipient has no mail address any more")
        token = secrets.token_urlsafe(24)
        # Written before it is handed over: after a crash in between it is `uncertain` and not sent again.
        sending = self._planner.update(
            notice, state=NoticeState.SENDING, tries=notice.tries + 1, token_hash=hash_token(token)
        )
        channel.send(address, self.letter(sending, token))
        self._planner.update(sending, state=NoticeState.SENT, sent_at=at, problem=None)
        self.sent[notice.rule] += 1

    def letter(self, notice: Notice, token: str) -> Letter:
        """Add the footer to a notice: its rule's precision, how to acknowledge and to silence."""
        url, config = self._config.serve.url, self._config.notices
        recipient = Recipient.parse(notice.recipient)
        footer = []
        rule = self._planner.rules.get(notice.rule)
        if rule is not None and rule.predicts:
            precision = measured_precision(self._planner.notices, notice.rule)
            footer.append(wording.precision_text(precision.came_true, precision.judged))
        if notice.rule != DIGEST:
            user = None if recipient.operates else plain(recipient.name)
            footer.append(wording.silence_text(notice.rule, user))
        budget = config.operator_budget if recipient.operates else config.budget
        footer.append(wording.why_text(notice.rule, budget))
        link = f"{url}/v1/notices/{notice.id}/acknowledge?token={token}" if url else None
        return Letter(
            id=notice.id,
            rule=notice.rule,
            message=notice.message,
            acknowledge_url=link,
            footer=tuple(footer),
        )

    def _not_sent(self, notice: Notice, error: DeliveryError, at: int) -> None:
        current = self._planner.notices.get(notice.id) or notice
        if error.uncertain:
            state = NoticeState.UNCERTAIN
        else:
            state = NoticeState.WAITING if error.transient else NoticeState.FAILED
        if state is not NoticeState.WAITING:
            log.warning("notice %s to %s: %s", notice.id, notice.recipient, error)
        self._planner.update(
            current,
            state=state,
            problem=str(error),
            next_try=at + _wait(current.tries - 1, error.wait),
            sent_at=at if error.uncertain else None,
        )

    def _channel_failed(self, name: str, error: ForewarnError, at: int) -> None:
        status = self.channels[name]
        wait = error.wait if isinstance(error, DeliveryError) else 0.0
        status.next_try = at + _wait(status.failures, wait)
        status.failures += 1
        if status.problem != str(error):  # once, not at every try
            log.warning("notices by %s wait: %s", name, error)
        status.problem = str(error)


def _channel_name(notice: Notice) -> str:
    recipient = Recipient.parse(notice.recipient)
    return str(recipient) if recipient.type == "webhook" else "mail"


def _wait(failures: int, at_least: float) -> int:
    return int(max(at_least, min(FIRST_WAIT * 2 ** min(max(failures, 0), 10), LONGEST_WAIT)))
