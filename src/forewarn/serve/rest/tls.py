"""The service's own certificate: checked before the start, and taken up again when its files are replaced."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from forewarn.config import ServeConfig
from forewarn.errors import UsageError
from forewarn.progress import Note

LOOK_EVERY = 10.0  # seconds between looks at the files
_Versions = tuple[tuple[int, int, int] | None, ...]  # inode, size and time of change of each file


class ServerCertificate:
    """A certificate with its key, in the TLS context of a server."""

    def __init__(self, certificate: Path, key: Path | None) -> None:
        """Read the files; `UsageError` where they cannot be used."""
        self._certificate, self._key = certificate, key
        self._versions = self._look()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load_into(self.context)

    def refresh(self) -> bool:
        """Take up files that were replaced; return whether they were. New connections use them.

        Raises `UsageError` once where the new ones cannot be used: then the former still count.
        """
        versions = self._look()
        if versions == self._versions:
            return False
        self._versions = versions
        # First into another context: a certificate without its key would spoil the one in use.
        self._load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self._load_into(self.context)
        return True

    async def follow(self, note: Note) -> None:
        """Look at the files from time to time, on the event loop: no connection begins in between."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                if self.refresh():
                    note(f"the certificate was replaced: {self._certificate}")
            except UsageError as error:
                note(f"warning: {error}; the former certificate is still used")

    def _look(self) -> _Versions:
        return tuple(map(_version, filter(None, (self._certificate, self._key))))

    def _load_into(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_passphrase)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise UsageError(self._reason(error)) from None

    def _reason(self, error: Exception) -> str:
        """Say which of the two files is wrong; OpenSSL names neither."""
        for setting, path in (("tls_certificate", self._certificate), ("tls_key", self._key)):
            if path is not None:
                try:
                    path.open("rb").close()
                except OSError as unreadable:
                    return f"serve.{setting}: {path}: cannot be read: {unreadable.strerror}"
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            return f"serve.tls_key: {self._key or self._certificate}: is not the key of {self._certificate}"
        reason = (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
        held = f"with the key {self._key}" if self._key else "as there is no serve.tls_key, with a key in it"
        return f"serve.tls_certificate: {self._certificate}: cannot be used {held}: {reason}"


def certificate_of(config: ServeConfig) -> ServerCertificate | None:
    """Return the configured certificate; None where the service listens without TLS."""
    if config.tls_certificate is None:
        if config.tls_key is not None:
            raise UsageError("serve.tls_key is set, but its certificate is not: serve.tls_certificate")
        return None
    return ServerCertificate(config.tls_certificate, config.tls_key)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase; the service needs one without")
