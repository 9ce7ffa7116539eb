"""Where slurmrestd listens: a URL, or a unix socket."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from forewarn.errors import UsageError

_WANTED = "http://HOST:6820, https://HOST, or unix:/run/slurmrestd/slurmrestd.socket"


@dataclass(frozen=True, slots=True)
class Address:
    """Of a unix socket, `socket` is its path, and `url` what HTTP needs to name."""

    url: str
    socket: str | None = None

    @classmethod
    def read(cls, text: str) -> Address:
        """
        >>> Address.read("http://slurm:6820/"), Address.read("unix:///run/s.sock")
        (Address(url='http://slurm:6820', socket=None), Address(url='http://localhost', socket='/run/s.sock'))
        """
        if text.startswith(("unix:", "/")):
            path = "/" + text.removeprefix("unix:").lstrip("/")
            return cls("http://localhost", path)
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"slurmrestd: {text!r} is no address: it is one like {_WANTED}")
        if parts.username or parts.query:
            raise UsageError(
                f"slurmrestd: {parts.hostname}: a token or a user does not belong into the address"
            )
        return cls(text.rstrip("/"))

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.url
