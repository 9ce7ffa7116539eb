"""What an admin does with notices on the command line of the home: list, silence, lift, try out."""

from __future__ import annotations

import socket
import time
from contextlib import closing

from forewarn.config import Config
from forewarn.config.notices import as_mail_address
from forewarn.errors import UsageError
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.home_actions import home_owner
from forewarn.operate.access.identity import Identity
from forewarn.operate.notices import wording
from forewarn.operate.notices.delivery import Letter
from forewarn.operate.notices.mail import MailChannel
from forewarn.operate.notices.requests import ListedNotice, NoticeRequests
from forewarn.operate.notices.scoring import MeasuredPrecision
from forewarn.operate.notices.silences import Silence
from forewarn.operate.notices.webhook import WebhookChannel
from forewarn.sources.slurm.connect import clock_of
from forewarn.store.opening import open_people_store


def list_notices(
    config: Config, *, limit: int = 50, rule: str | None = None, user: str | None = None
) -> tuple[list[ListedNotice], list[MeasuredPrecision]]:
    """List the newest notices, of all recipients or to one user, and the precision of each rule."""
    with open_people_store(config) as people:
        requests = NoticeRequests(config.notices, people)
        identity = home_owner() if user is None else Identity(user=user)
        return requests.notices(identity, limit=limit, rule=rule), requests.precision()


def list_silences(config: Config, *, past: bool = False) -> list[Silence]:
    """List the silences, newest first."""
    with open_people_store(config) as people:
        return NoticeRequests(config.notices, people).silences(
            home_owner(), at=int(clock_of(config).now()), past=past
        )


def add_silence(
    config: Config,
    *,
    rule: str | None = None,
    user: str | None = None,
    node: str | None = None,
    days: int | None = None,
    reason: str = "",
) -> Silence:
    """Silence notices by rule, by the owner of the jobs, or by node; for some days, or until it is lifted."""
    at, admin = int(clock_of(config).now()), home_owner()
    until = None if days is None else at + days * 86400
    with open_people_store(config) as people:
        silence = NoticeRequests(config.notices, people).silence(
            admin, at=at, until=until, rule=rule, user=user, node=node, reason=reason
        )
        details = {"rule": rule, "user": user, "node": node, "until": until}
        write_audit_line(people, admin, "notice.silence", silence.id, details=details)
    return silence


def lift_silence(config: Config, silence_id: str) -> Silence:
    """End a silence."""
    admin = home_owner()
    with open_people_store(config) as people:
        silence = NoticeRequests(config.notices, people).lift(
            admin, silence_id, at=int(clock_of(config).now())
        )
        write_audit_line(people, admin, "notice.lift", silence_id)
    return silence


def send_trial(config: Config, *, to: str | None = None, webhook: str | None = None) -> str:
    """Send a message that shows that notices arrive; return where it went. Errors say what is wrong."""
    if (to is None) == (webhook is None):
        raise UsageError("--to or --webhook: name one of them")
    letter = Letter(
        id=f"test-{time.time_ns():x}", rule="test", message=wording.trial_message(socket.gethostname())
    )
    if to is not None:
        try:
            address = as_mail_address(to)
        except ValueError as wanted:
            raise UsageError(f"--to: {to!r} is not {wanted}") from None
        channel: MailChannel | WebhookChannel = MailChannel(config.notices)
    else:
        hooks = {hook.name: hook for hook in config.notices.webhooks}
        if webhook not in hooks:
            known = f"choose from: {', '.join(sorted(hooks))}" if hooks else "none is configured"
            raise UsageError(f"--webhook: no webhook {webhook!r}; {known} (notices.webhooks)")
        address, channel = f"webhook {webhook}", WebhookChannel(hooks[webhook])
    with closing(channel):
        channel.open()
        channel.send(address, letter)
    return address
