"""A check that a Ray cluster answers at an address, done before hours of work and without importing Ray."""

from __future__ import annotations

import os
import socket

from forewarn.errors import LearningError, UsageError

CONNECT_SECONDS = 5
INSTEAD = "omit --ray-address to search on this machine"
_SETTINGS_FRAME = b"\0\0\0\4\0\0\0\0\0"  # an empty one of HTTP/2, with which both sides begin


def check_ray_address(address: str | None) -> None:
    """Check that an address is valid and that a Ray cluster answers there.

    Raises `UsageError` for a malformed address, and `LearningError` if nothing listens there or it does not
    speak HTTP/2 as Ray does. Ray itself would try for minutes.
    """
    if address in (None, "auto"):
        return
    host, colon, port = address.rpartition(":")
    if "/" in address or not colon or not host or not port.isdecimal():
        raise UsageError(f"{address!r} is no address of a Ray cluster: give HOST:PORT, or auto; {INSTEAD}")
    try:
        with socket.create_connection((host, int(port)), CONNECT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS_FRAME)
            if connection.recv(9)[3:4] != _SETTINGS_FRAME[3:4]:
                raise OSError("what listens there is not Ray")
    except (OSError, OverflowError) as error:
        raise LearningError(f"{no_cluster_message(address)}: {first_sentence(error)}; {INSTEAD}") from None


def no_cluster_message(address: str) -> str:
    """Return the beginning of the message for an address without a Ray cluster."""
    return f"no Ray cluster answers at {address}"


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error's message."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip().partition("\n")[0].partition(". ")[0].rstrip(".") or type(error).__name__
