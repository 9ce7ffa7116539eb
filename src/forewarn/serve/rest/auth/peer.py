"""The other end of a connection, noted before any middleware can change it.

uvicorn replaces the client's address by what a proxy forwarded, and knows nothing of a unix socket's client.
This protocol puts both into the scope: the address of the connection itself, and the user id that the kernel
vouches for.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

EXTENSION = "forewarn.peer"
_UCRED = struct.Struct("3i")  # pid, uid, gid


class PeerProtocol(HttpToolsProtocol):
    """HTTP of uvicorn, with the peer of the connection in the scope: pass it as `http=PeerProtocol`."""

    peer: dict[object, object] | None = None

    def on_message_begin(self) -> None:
        """Put who is at the other end into the scope of each request."""
        super().on_message_begin()
        if self.peer is None:  # the connection's first request
            address = self.client[0] if self.client else None
            self.peer = {"address": address, "uid": None if address else peer_uid(self.transport)}
        self.scope["extensions"] = {EXTENSION: self.peer}


def peer_uid(transport: asyncio.BaseTransport) -> int | None:
    """Return the user id at the other end of a unix socket, by SO_PEERCRED."""
    opened = transport.get_extra_info("socket")
    if opened is None or opened.family != socket.AF_UNIX:
        return None
    try:
        # uvloop's stand-in for a socket has no getsockopt of its own.
        with socket.socket(fileno=os.dup(opened.fileno())) as same:
            found = same.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    except OSError:
        return None
    uid: int = _UCRED.unpack(found)[1]
    return uid if uid >= 0 else None
