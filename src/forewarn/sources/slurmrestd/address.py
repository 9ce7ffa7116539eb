"""The address of slurmrestd: a URL, or a unix socket."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from forewarn.errors import UsageError

_EXAMPLES = "http://HOST:6820, https://HOST, or unix:/run/slurmrestd/slurmrestd.socket"


@dataclass(frozen=True, slots=True)
class Address:
    """An address; for a unix socket, `socket` is its path, and `url` the host name that HTTP requires."""

    url: str
    socket: str | None = None

    @classmethod
    def read(cls, text: str) -> Address:
        """Read an address; `UsageError` where it is none.

        >>> Address.read("http://slurm:6820/"), Address.read("unix:///run/s.sock")
        (Address(url='http://slurm:6820', socket=None), Address(url='http://localhost', socket='/run/s.sock'))
        """
        if text.startswith(("unix:", "/")):
            path = "/" + text.removeprefix("unix:").lstrip("/")
            return cls("http://localhost", path)
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"slurmrestd: {text!r} is not an address; write one like {_EXAMPLES}")
        if parts.username or parts.query:
            raise UsageError(f"slurmrestd: {parts.hostname}: an address cannot hold a token or a user")
        return cls(text.rstrip("/"))

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.url
