"""Where a browser goes after a login: a path of this service, whatever the request asked for."""

from __future__ import annotations

from urllib.parse import urlsplit

DEFAULT = "/auth/session"


def safe_return(path: str | None) -> str:
    """Return the path if it is one of this service, else the default one.

    >>> [safe_return(one) for one in ("/jobs?user=ann", "//evil.example", "/\\\\evil.example", "https://evil.example")]
    ['/jobs?user=ann', '/auth/session', '/auth/session', '/auth/session']
    """
    if not path or not path.startswith("/") or path[1:2] in ("/", "\\"):
        return DEFAULT
    # Browsers drop tabs and line breaks, and read a backslash as a slash.
    if "\\" in path or not path.isprintable() or not path.isascii():
        return DEFAULT
    parts = urlsplit(path)
    return path if not parts.scheme and not parts.netloc else DEFAULT
