"""How the value of a setting is read: from TOML it has a type, from the environment it is text.

Each reader returns the value, or raises a `ValueError` that says what it should be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

_TRACKING = ("https://", "http://", "sqlite:///", "postgresql://", "mysql://")


def as_text(value: object) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def is_user_name(text: str) -> bool:
    """Check whether a text can be a user name: it goes into HTTP headers and commands.

    >>> is_user_name("ann@example.org"), is_user_name("ann\\r\\nX-Other: 1"), is_user_name("-x")
    (True, False, False)
    """
    return bool(text) and text.isascii() and text.isprintable() and " " not in text and text[0] != "-"


def as_user_name(value: object) -> str:
    """Read a user name."""
    name = as_text(value)
    if not is_user_name(name):
        raise ValueError("a user name")
    return name


def as_path(value: object) -> Path:
    """Read a path; ~ is the home of the user."""
    return Path(as_text(str(value) if isinstance(value, Path) else value)).expanduser()


def as_seconds(value: object) -> int:
    """Read a whole number of seconds."""
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number of seconds, 0 or more")
    return value


def as_days(value: object) -> int:
    """Read a whole number of days."""
    try:
        count = as_seconds(value)
    except ValueError:
        count = 0
    if not count:
        raise ValueError("a whole number of days, 1 or more")
    return count


def as_seed(value: object) -> int:
    """Read a seed."""
    try:
        return as_seconds(value)
    except ValueError:
        raise ValueError("a whole number, 0 or more") from None


def as_speed(value: object) -> float:
    """Read how much faster than the wall clock simulated time runs: ``60`` or ``60x``.

    >>> as_speed("60x"), as_speed(0.5)
    (60.0, 0.5)
    """
    try:
        speed = float(value.strip().removesuffix("x") if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        speed = 0.0
    if isinstance(value, bool) or not 0.01 <= speed <= 100_000:
        raise ValueError("a number from 0.01 to 100000, such as 1 or 60")
    return speed


def time_zone(value: object) -> str:
    """Parse the name of a time zone; `ValueError` says what it should be."""
    try:
        return ZoneInfo(as_text(value)).key
    except (KeyError, ValueError, OSError):
        raise ValueError("a time zone such as Europe/Zurich or UTC") from None


def one_of(*choices: str) -> Callable[[object], str]:
    """Return a reader of one of some words."""

    def read(value: object) -> str:
        if value not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return str(value)

    return read


def as_tracking(value: object) -> str:
    """Read an MLflow tracking URI."""
    uri = as_text(value)
    if not uri.startswith(_TRACKING):
        raise ValueError("an MLflow tracking URI: " + ", ".join(f"{scheme}…" for scheme in _TRACKING))
    return uri


def as_slurmrestd(value: object) -> str:
    """Read the address of slurmrestd."""
    address = as_text(value)
    if not address.startswith(("http://", "https://", "unix:/", "/")):
        raise ValueError("an address like http://HOST:6820, https://HOST or unix:/PATH/OF/SOCKET")
    return address


def setting(
    read: Callable[[object], Any], help: str, example: object = "", *, secret: bool = False
) -> dict[str, Any]:
    """Return the metadata of a setting: its reader and what it is for."""
    return {"read": read, "help": help, "example": example, "secret": secret}


def as_count(value: object) -> int:
    """Read a whole number, 1 or more."""
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a whole number, 1 or more")
    return value


def as_flag(value: object) -> bool:
    """Read true or false.

    >>> as_flag("yes"), as_flag(False)
    (True, False)
    """
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.strip().lower() not in words:
        raise ValueError("true or false")
    return words[value.strip().lower()]


def as_names(value: object) -> tuple[str, ...]:
    """Read a list of names: a list in TOML, commas in the environment.

    >>> as_names("ann, ben"), as_names(["ann"])
    (('ann', 'ben'), ('ann',))
    """
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(one, str) and one.strip() for one in parts):
        raise ValueError('a list of names, such as ["ann", "ben"]')
    return tuple(one.strip() for one in parts)


def as_url(value: object) -> str:
    """Read the address of a web service."""
    url = as_text(value)
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https://")
    return url.rstrip("/")


def as_listen(value: object) -> str:
    """Read where to listen: a port, or a host and a port.

    >>> as_listen("8765"), as_listen("0.0.0.0:80"), as_listen("[::1]:8765")
    ('127.0.0.1:8765', '0.0.0.0:80', '[::1]:8765')
    """
    host, _, port = str(value).strip().rpartition(":")
    if isinstance(value, bool) or not port.isdigit() or int(port) > 65535:
        raise ValueError("a port, or HOST:PORT such as 127.0.0.1:8765")
    return f"{host or '127.0.0.1'}:{port}"
