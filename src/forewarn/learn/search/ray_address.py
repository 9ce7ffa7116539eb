"""Whether a Ray cluster answers at an address: asked before hours of work, and without importing Ray."""

from __future__ import annotations

import os
import socket

from forewarn.errors import LearningError, UsageError

CONNECT_SECONDS = 5
INSTEAD = "leave out --ray-address to search on this machine"
_SETTINGS_FRAME = b"\0\0\0\4\0\0\0\0\0"  # of HTTP/2, empty: both sides begin with one


def greet(address: str | None) -> None:
    """Raise where nobody listens, or somebody who does not speak Ray's HTTP/2: Ray would try for minutes."""
    if address in (None, "auto"):
        return
    host, colon, port = address.rpartition(":")
    if "/" in address or not colon or not host or not port.isdecimal():
        raise UsageError(f"{address!r} is no address of a Ray cluster: give HOST:PORT, or auto; {INSTEAD}")
    try:
        with socket.create_connection((host, int(port)), CONNECT_SECONDS) as greeted:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            greeted.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS_FRAME)
            if greeted.recv(9)[3:4] != _SETTINGS_FRAME[3:4]:
                raise OSError("what listens there is not Ray")
    except (OSError, OverflowError) as error:
        raise LearningError(f"{nobody(address)}: {reason(error)}; {INSTEAD}") from None


def nobody(address: str) -> str:
    """The beginning of an error."""
    return f"no Ray cluster answers at {address}"


def reason(error: Exception) -> str:
    """The first sentence of what an error says."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip().partition("\n")[0].partition(". ")[0].rstrip(".") or type(error).__name__
