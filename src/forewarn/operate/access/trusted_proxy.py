"""The proxy that logs users in, and names them in a header."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from forewarn.config import is_user_name
from forewarn.errors import UnauthenticatedError, UsageError
from forewarn.operate.access.credentials import Credentials, Proof

METHOD = "proxy"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_SHORTEST_SECRET = 16  # characters


class TrustedProxy:
    """A proxy that knows the secret and comes from where it should."""

    def __init__(self, secret_file: Path | None, networks: Sequence[Network]) -> None:
        self._secret = _read_secret(secret_file)
        self._networks = networks

    def prove(self, credentials: Credentials) -> Proof:
        """Return the user that the proxy names; raise `UnauthenticatedError` if it is not this proxy."""
        secret = (credentials.proxy_secret or "").encode("utf-8", "replace")
        if not hmac.compare_digest(secret, self._secret) or not self._is_at(credentials.peer):
            raise UnauthenticatedError("the header with the user is believed only from the trusted proxy")
        user = credentials.proxy_user or ""
        if not is_user_name(user) or ":" in user:
            raise UnauthenticatedError("the proxy's header does not name a user")
        return Proof(user=user, method=METHOD)

    def _is_at(self, peer: str | None) -> bool:
        if peer is None:
            return True  # the unix socket: who may open it is a matter of its permissions
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self._networks if network.version == address.version)


def _read_secret(path: Path | None) -> bytes:
    if path is None:
        raise UsageError("access.proxy_header needs access.proxy_secret_file")
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"access.proxy_secret_file: {path}: cannot be read: {error.strerror}") from None
    if len(secret) < _SHORTEST_SECRET:
        raise UsageError(
            f"access.proxy_secret_file: {path}: the secret has fewer than {_SHORTEST_SECRET} characters"
        )
    return secret


def trusted_network(text: str) -> Network:
    """Read one of `serve.trusted_proxies`: an address or a network."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UsageError(f"serve.trusted_proxies: {text!r} is not an address or a network") from None
