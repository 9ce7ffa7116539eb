"""Where a service is, and what proves to it who is asking."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forewarn.errors import UsageError

URL, TOKEN, CA_FILE = "FOREWARN_URL", "FOREWARN_TOKEN", "FOREWARN_CA_FILE"
SLURM_TOKEN = "SLURM_JWT"
_UNIX = "unix:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEndpoint:
    """The address of a service, and the headers of each request; a token is never shown."""

    base: str  # of the paths: http://host:8765
    socket: str | None = None  # path of a unix socket
    ca_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{_UNIX}{self.socket}" if self.socket else self.base

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection needs certificates."""
        return self.base.startswith("https:")


def service_address(
    url: str | None = None,
    *,
    token: str | None = None,
    slurm_token: str | None = None,
    user: str | None = None,
    ca_file: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ServiceEndpoint:
    """Complete what a caller gives from the environment.

    Parameters
    ----------
    url
        ``http://host:8765``, ``https://host`` or ``unix:/path``; else `FOREWARN_URL`.
    token
        A token of the service or of OIDC; else `FOREWARN_TOKEN`.
    slurm_token
        A token of Slurm, with which the service acts; else `SLURM_JWT`, unless there is a `token`.
    user
        Whose Slurm token it is; else the user of this process.
    """
    base, socket = _place(url or environ.get(URL) or "")
    token = token or environ.get(TOKEN) or None
    if slurm_token is None and token is None:
        slurm_token = environ.get(SLURM_TOKEN) or None
    headers: dict[str, str] = {}
    if token is not None:
        headers["Authorization"] = f"Bearer {_checked(token)}"
    if slurm_token is not None:
        headers["X-SLURM-USER-TOKEN"] = _checked(slurm_token)
        headers["X-SLURM-USER-NAME"] = _checked(user or getpass.getuser())
    certificates = ca_file or environ.get(CA_FILE) or None
    return ServiceEndpoint(
        base=base, socket=socket, ca_file=Path(certificates) if certificates else None, headers=headers
    )


def _place(url: str) -> tuple[str, str | None]:
    """Return the address of HTTP and the socket.

    >>> _place("https://forewarn.example.org/"), _place("unix:/run/forewarn/rest.sock")
    (('https://forewarn.example.org', None), ('http://localhost', '/run/forewarn/rest.sock'))
    """
    if url.startswith(_UNIX):
        path = url.removeprefix(_UNIX).removeprefix("//")
        if not path.startswith("/"):
            raise UsageError(f"{url!r} is no address of a service: write unix:/PATH/OF/SOCKET")
        return "http://localhost", path
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fine = False
    if not is_fine or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(
            f"{url!r} is no address of a service: give http://HOST:8765, https://HOST or unix:/PATH, "
            f"or set {URL}"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(f"the address of a service has no user, query or fragment; a token is in {TOKEN}")
    return url.rstrip("/"), None


def _checked(token: str) -> str:
    """Return a token that may be in a header; the message does not quote another one."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("the token or user name for the service is not one word of plain characters")
    return token
