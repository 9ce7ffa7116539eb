"""The page behind the link of a notice: it shows the notice, and a button acknowledges it.

Opening it changes nothing, so that a mail server that opens links to test them acknowledges nothing.
"""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse

from forewarn.operate.notices.requests import ListedNotice

# No script, no picture; the form may only be sent back here.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"


def acknowledge_page(found: ListedNotice, token: str) -> HTMLResponse:
    """Show a notice, with a button unless it is acknowledged."""
    message = found.notice.message
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in message.facts)
    if found.acknowledged_at is None:
        action = f"acknowledge?token={escape(token, quote=True)}"
        below = f"<form method='post' action='{action}'><button>Acknowledge</button></form>"
    else:
        below = "<p>Acknowledged. You can close this page.</p>"
    body = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Forewarn</title></head>"
        "<body style='font-family:sans-serif;max-width:45em;margin:2em auto'>"
        f"<h3>{escape(message.title)}</h3><dl>{facts}</dl>{below}</body></html>"
    )
    return HTMLResponse(body, headers={"Content-Security-Policy": _POLICY})
