"""The settings of notices by mail and webhook, in the table ``[notices]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from forewarn.config.values import (
    as_count,
    as_days,
    as_names,
    as_path,
    as_seconds,
    as_text,
    as_url,
    one_of,
    setting,
)

SHAPES = ("slack", "teams", "json")
RULES = ("risk", "failure", "node")
_ADDRESS = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+")
_TABLE = (
    "a repeated table [[notices.webhooks]] with a name, a shape (slack, teams or json) and a url or url_file"
)


def is_mail_address(text: str) -> bool:
    """Check whether a text is a plain mail address, without a name beside it.

    >>> is_mail_address("ops@example.org"), is_mail_address("ops@example.org\\r\\nBcc: x@y")
    (True, False)
    """
    return _ADDRESS.fullmatch(text) is not None


def as_mail_address(value: object) -> str:
    """Read a mail address."""
    address = as_text(value)
    if not is_mail_address(address):
        raise ValueError("a mail address such as forewarn@example.org")
    return address


def as_mail_addresses(value: object) -> tuple[str, ...]:
    """Read a list of mail addresses."""
    addresses = as_names(value) if value else ()
    if not all(is_mail_address(one) for one in addresses):
        raise ValueError('a list of mail addresses, such as ["ops@example.org"]')
    return addresses


def as_address_template(value: object) -> str:
    """Read how a user's mail address follows from the user name: a template, or only the domain.

    >>> as_address_template("example.org"), as_address_template("{user}@mail.example.org")
    ('{user}@example.org', '{user}@mail.example.org')
    """
    text = as_text(value)
    template = text if "{user}" in text else "{user}@" + text.removeprefix("@")
    if not is_mail_address(template.replace("{user}", "ann")) or template.count("{user}") != 1:
        raise ValueError("a domain such as example.org, or a template such as {user}@example.org")
    return template


def as_server(value: object) -> str:
    """Read a mail server: a host, or a host and a port."""
    text = as_text(value)
    host, colon, port = text.rpartition(":")
    if " " in text or (colon and not (host and port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError("a mail server such as mail.example.org:587")
    return text


def as_share(value: object) -> float:
    """Read a share between 0 and 1."""
    share = _number(value)
    if share is None or not 0 <= share <= 1:
        raise ValueError("a number between 0 and 1")
    return share


def as_hours(value: object) -> float:
    """Read a number of hours."""
    hours = _number(value)
    if hours is None or not 0 <= hours < 1e9:
        raise ValueError("a number of hours, 0 or more")
    return hours


def as_hour_of_day(value: object) -> int:
    """Read an hour of the day."""
    hour = _number(value)
    if hour is None or hour not in range(24):
        raise ValueError("an hour of the day, 0 to 23")
    return int(hour)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A web address that takes notices for operators; whoever knows it can write there, so it is a secret."""

    name: str
    shape: str = "slack"
    url: str | None = field(default=None, repr=False)
    url_file: Path | None = None  # holds the address; safer than writing it into the config file
    rules: tuple[str, ...] = RULES


def as_webhooks(value: object) -> tuple[Webhook, ...]:
    """Read the repeated table of webhooks.

    >>> as_webhooks([{"name": "ops", "shape": "teams", "url_file": "/etc/forewarn/teams.url"}])[0].shape
    'teams'
    """
    if not isinstance(value, list | tuple):
        raise ValueError(_TABLE)
    hooks = tuple(one if isinstance(one, Webhook) else _webhook(one) for one in value)
    if len({hook.name for hook in hooks}) < len(hooks):
        raise ValueError("webhooks of which each has a name of its own")
    return hooks


_READERS = {
    "name": as_text,
    "shape": one_of(*SHAPES),
    "url": as_url,
    "url_file": as_path,
    "rules": as_names,
}


def _webhook(table: object) -> Webhook:
    names = {one.name for one in fields(Webhook)}
    if not isinstance(table, dict) or not table.keys() <= names or ("url" in table) == ("url_file" in table):
        raise ValueError(_TABLE)
    try:
        values: dict[str, Any] = {name: _READERS[name](own) for name, own in table.items()}
        hook = Webhook(**values)
    except (ValueError, TypeError):
        raise ValueError(_TABLE) from None
    if not set(hook.rules) <= set(RULES):
        raise ValueError(f"{_TABLE}, and rules of {', '.join(RULES)}")
    return hook


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticesConfig:
    """Where notices are sent, and how many at most."""

    smtp: str | None = field(
        default=None, metadata=setting(as_server, "mail server; without it no mail", "mail.example.org:587")
    )
    smtp_tls: str = field(
        default="starttls",
        metadata=setting(
            one_of("starttls", "tls", "none"),
            "starttls (port 587), tls from the start (port 465), or none (a server on this machine)",
        ),
    )
    smtp_ca_file: Path | None = field(
        default=None,
        metadata=setting(
            as_path, "CA certificates for the mail server; default: the system's", "/etc/ssl/site-ca.pem"
        ),
    )
    smtp_user: str | None = field(
        default=None, metadata=setting(as_text, "user at the mail server, if it asks for one", "forewarn")
    )
    smtp_password: str | None = field(
        default=None,
        repr=False,
        metadata=setting(as_text, "password at the mail server; a file is safer", "…", secret=True),
    )
    smtp_password_file: Path | None = field(
        default=None,
        metadata=setting(as_path, "file that holds this password", "/etc/forewarn/smtp.password"),
    )
    sender: str | None = field(
        default=None, metadata=setting(as_mail_address, "address that mail is from", "forewarn@example.org")
    )
    user_address: str | None = field(
        default=None,
        metadata=setting(
            as_address_template,
            "mail address of a user: a domain, or a template; without it users get no mail",
            "{user}@example.org",
        ),
    )
    to_users: str = field(
        default="all",
        metadata=setting(
            one_of("all", "subscribers", "none"),
            "which users get mail: all but those who opted out, subscribers, or none",
        ),
    )
    operators: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            as_mail_addresses, "mail addresses of those who run the cluster", ["ops@example.org"]
        ),
    )
    webhooks: tuple[Webhook, ...] = field(
        default=(),
        metadata=setting(
            as_webhooks,
            "web addresses for operators' notices, one table each",
            [{"name": "ops", "shape": "slack", "url_file": "/etc/forewarn/slack.url"}],
            secret=True,
        ),
    )
    minimum_hours: float = field(
        default=1.0, metadata=setting(as_hours, "node hours at risk or lost from which a user gets a notice")
    )
    operator_hours: float = field(
        default=100.0, metadata=setting(as_hours, "node hours at risk or lost from which operators get one")
    )
    budget: int = field(
        default=5, metadata=setting(as_count, "notices a day to one user; the rest is one digest")
    )
    operator_budget: int = field(
        default=20, metadata=setting(as_count, "notices a day to one operator's address or webhook")
    )
    promise: float = field(
        default=0.5,
        metadata=setting(
            as_share, "share of warnings that should come true; a rule that is worse is silenced"
        ),
    )
    window: int = field(
        default=60,
        metadata=setting(as_seconds, "seconds for which events are gathered before notices are ranked"),
    )
    digest_hour: int = field(
        default=7, metadata=setting(as_hour_of_day, "hour at which the digest of the day before is sent")
    )
    kept: int = field(default=90, metadata=setting(as_days, "days for which notices are kept"))

    @property
    def can_send(self) -> bool:
        """Whether a way of sending is configured."""
        return (self.smtp is not None and self.sender is not None) or bool(self.webhooks)
