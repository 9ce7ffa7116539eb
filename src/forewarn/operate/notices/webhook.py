"""Webhooks in the shapes of Slack and Teams, or as plain JSON.

The address is a secret: no message, log line or error has it. Redirects are not followed. Slack gets escaped
plain text; Teams gets text runs, which have no markup: a job's name mentions nobody and links nowhere.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import httpx

from forewarn.config.notices import Webhook
from forewarn.errors import DeliveryError
from forewarn.operate.notices.delivery import Letter
from forewarn.operate.notices.mail import read_secret

TIMEOUT = 15.0
_LATER = frozenset({408, 425, 429})
_LONGEST_WAIT = 3600.0


class WebhookChannel:
    """A client of one webhook."""

    def __init__(self, hook: Webhook, *, timeout: float = TIMEOUT) -> None:
        self._hook, self._timeout = hook, timeout
        # Not a client: that writes every address, with the secret in it, to its log.
        self._transport: httpx.HTTPTransport | None = None
        self._url = ""

    def open(self) -> None:
        """Read the address; the connection is made for each letter."""
        hook = self._hook
        url = read_secret(hook.url_file, f"webhook {hook.name}") if hook.url_file else hook.url or ""
        if not url.startswith(("https://", "http://")):
            raise DeliveryError(
                f"webhook {hook.name}: the address must begin with https://",
                transient=True,
                whole_channel=True,
            )
        self._url = url
        self._transport = httpx.HTTPTransport()

    def send(self, address: str, letter: Letter) -> None:  # noqa: ARG002 - a webhook has one address
        """Post a letter."""
        if self._transport is None:
            raise self._error("not opened", transient=True)
        try:
            request = httpx.Request(
                "POST",
                self._url,
                json=SHAPES[self._hook.shape](letter),
                headers={"User-Agent": "forewarn"},
                extensions={"timeout": httpx.Timeout(self._timeout).as_dict()},
            )
            # The answer is not read beyond its status: it may be of any size.
            with closing(self._transport.handle_request(request)) as response:
                status, wait = response.status_code, response.headers.get("Retry-After", "")
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise self._error(f"cannot be reached{_cause(error)}", transient=True) from None
        except (httpx.TransportError, httpx.InvalidURL) as error:  # sent, or partly: it may have been taken
            is_wrong = isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL)
            raise self._error("the connection was lost", uncertain=not is_wrong) from None
        if not 200 <= status < 300:
            later = status in _LATER or status >= 500
            seconds = min(float(wait), _LONGEST_WAIT) if wait.isdigit() else 0.0
            reason = "redirects, which is not followed" if 300 <= status < 400 else f"answers {status}"
            raise self._error(reason, transient=later, wait=seconds)

    def close(self) -> None:
        """Close the connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _error(
        self, reason: str, *, transient: bool = False, uncertain: bool = False, wait: float = 0.0
    ) -> DeliveryError:
        return DeliveryError(
            f"webhook {self._hook.name}: {reason}",
            transient=transient,
            uncertain=uncertain,
            whole_channel=transient or uncertain,
            wait=wait,
        )


def as_slack(letter: Letter) -> dict[str, Any]:
    """Lay a letter out for Slack."""
    message = letter.message
    lines = [f"{name}: {text}" for name, text in message.facts]
    lines += [f"• {text}" for text in message.advice]
    lines += [f"$ {message.command}"] if message.command else []

    def plain_block(kind: str, text: str, longest: int) -> dict[str, Any]:
        return {"type": kind, "text": {"type": "plain_text", "text": _escaped(text, longest), "emoji": False}}

    blocks = [plain_block("header", message.title, 140)]
    if lines:
        blocks.append(plain_block("section", "\n".join(lines), 2800))
    if letter.acknowledge_url:
        link = {"type": "mrkdwn", "text": f"<{letter.acknowledge_url}|Acknowledge>"}
        blocks.append({"type": "section", "text": link})
    if letter.footer:  # Slack refuses a message with an empty text
        footer = {"type": "plain_text", "text": _escaped(" ".join(letter.footer), 1800), "emoji": False}
        blocks.append({"type": "context", "elements": [footer]})
    return {"text": _escaped(message.title, 300), "mrkdwn": False, "blocks": blocks}


def as_teams(letter: Letter) -> dict[str, Any]:
    """Lay a letter out as an Adaptive Card of text runs, as workflows of Teams take it."""
    message = letter.message

    def block(*runs: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        inlines = [{"type": "TextRun", "text": text, **style} for text, style in runs]
        return {"type": "RichTextBlock", "inlines": inlines}

    body = [block((message.title, {"weight": "Bolder", "size": "Medium"}))]
    body += [block((f"{name}: ", {"isSubtle": True}), (text, {})) for name, text in message.facts]
    body += [block((f"• {text}", {})) for text in message.advice]
    if message.command:
        body.append(block((message.command, {"fontType": "Monospace"})))
    if letter.footer:
        body.append(block((" ".join(letter.footer), {"isSubtle": True, "size": "Small"})))
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if letter.acknowledge_url:
        link = {"type": "Action.OpenUrl", "title": "Acknowledge", "url": letter.acknowledge_url}
        card["actions"] = [link]
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def as_plain_json(letter: Letter) -> dict[str, Any]:
    """Lay a letter out as JSON for programs."""
    return {"version": 1, **asdict(letter)}


SHAPES: Mapping[str, Callable[[Letter], dict[str, Any]]] = MappingProxyType(
    {"slack": as_slack, "teams": as_teams, "json": as_plain_json}
)


def _cause(error: BaseException | None) -> str:
    """Return what the system says about a connection; another library's text may have the address in it."""
    while error is not None:
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror:
            return f": {error.strerror}"
        error = error.__cause__ or error.__context__
    return ""


def _escaped(text: str, longest: int) -> str:
    """Escape the three characters that Slack's markup begins with; cut before, so that no entity is cut."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
