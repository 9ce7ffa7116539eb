"""The configuration: flag over environment over file over default.

The fields of `Config` are the whole table of settings: a field added there can be set in the TOML
file, by the environment (``FOREWARN_`` and its name), and shows in `forewarn config show`.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from forewarn.errors import UsageError

PREFIX = "FOREWARN_"
CONFIG_FILE = "config.toml"
# Variables that are no settings: where the file lies, and tracebacks for developers.
CONFIG_VARIABLE = PREFIX + "CONFIG"
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, PREFIX + "DEBUG"})
_TRACKING = ("https://", "http://", "sqlite:///", "postgresql://", "mysql://")


# --- how a value is read: from TOML it has a type, from the environment it is text ------------------


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def is_user_name(text: str) -> bool:
    """Check whether a text can be a user name: it goes into HTTP headers and commands.

    >>> is_user_name("ann@example.org"), is_user_name("ann\\r\\nX-Other: 1"), is_user_name("-x")
    (True, False, False)
    """
    return bool(text) and text.isascii() and text.isprintable() and " " not in text and text[0] != "-"


def _user(value: object) -> str:
    name = _text(value)
    if not is_user_name(name):
        raise ValueError("a user name")
    return name


def _path(value: object) -> Path:
    return Path(_text(str(value) if isinstance(value, Path) else value)).expanduser()


def _seconds(value: object) -> int:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number of seconds, 0 or more")
    return value


def _days(value: object) -> int:
    try:
        days = _seconds(value)
    except ValueError:
        days = 0
    if not days:
        raise ValueError("a whole number of days, 1 or more")
    return days


def time_zone(value: object) -> str:
    """Parse the name of a time zone; `ValueError` says what it should be."""
    try:
        return ZoneInfo(_text(value)).key
    except (KeyError, ValueError, OSError):
        raise ValueError("a time zone such as Europe/Zurich or UTC") from None


def _one_of(*choices: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return str(value)

    return read


def _tracking(value: object) -> str:
    uri = _text(value)
    if not uri.startswith(_TRACKING):
        raise ValueError("an MLflow tracking URI: " + ", ".join(f"{scheme}…" for scheme in _TRACKING))
    return uri


def _slurmrestd(value: object) -> str:
    address = _text(value)
    if not address.startswith(("http://", "https://", "unix:/", "/")):
        raise ValueError("an address like http://HOST:6820, https://HOST or unix:/PATH/OF/SOCKET")
    return address


def _is(
    read: Callable[[object], Any], help: str, example: str = "", *, secret: bool = False
) -> dict[str, Any]:
    return {"read": read, "help": help, "example": example, "secret": secret}


def default_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the default home: beside other programs' data of this user."""
    return Path(environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "forewarn"


# --- the table --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The settings of one cluster, in the table ``[clusters.NAME]``."""

    timezone: str | None = field(
        default=None, metadata=_is(time_zone, "time zone of the cluster's clock", "Europe/Zurich")
    )
    swf_status: str | None = field(
        default=None,
        metadata=_is(
            _text, "how its SWF logs' status is read: swf, exit-code, or 0=failed,1=completed", "exit-code"
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, with its default.

    >>> Config().policy
    'wasted'
    """

    home: Path = field(
        default_factory=default_home,
        metadata=_is(_path, "folder that holds the store, its config file and rejects"),
    )
    cluster: str | None = field(
        default=None, metadata=_is(_text, "name for records that carry none; else the file's name", "alps")
    )
    timezone: str | None = field(
        default=None,
        metadata=_is(
            time_zone, "zone of times written without one; else the file's own, else UTC", "Europe/Zurich"
        ),
    )
    known_delay: int = field(
        default=0,
        metadata=_is(_seconds, "seconds from a job's end until its outcome counts as known, for files"),
    )
    policy: str = field(
        default="wasted",
        metadata=_is(
            _one_of("wasted", "papers"),
            "which outcomes are failures: wasted (preempted and user-cancelled left out) or papers "
            "(everything but completed)",
        ),
    )
    store: str = field(
        default="embedded", metadata=_is(_one_of("embedded"), "where observations are kept: embedded")
    )
    assessments_kept: int = field(
        default=400,
        metadata=_is(_days, "days for which the collector keeps assessments"),
    )
    tracking: str | None = field(
        default=None,
        metadata=_is(
            _tracking,
            "MLflow server or database that registers the models; else one in the home folder",
            "https://mlflow.example.org",
        ),
    )
    model: Path | None = field(
        default=None,
        metadata=_is(
            _path,
            "exported bundle, used to check a user's own jobs without access to the store",
            "/opt/forewarn/alps.tar.gz",
        ),
    )
    model_cluster: str | None = field(
        default=None,
        metadata=_is(
            _text,
            "cluster that this bundle was trained on, to let it serve another cluster on purpose",
            "alps",
        ),
    )
    scheduler: str = field(
        default="auto",
        metadata=_is(
            _one_of("auto", "slurmrestd", "commands"),
            "how to query a live Slurm: slurmrestd, commands (sacct, scontrol), or auto (the first that is "
            "available)",
        ),
    )
    scripts: str = field(
        default="auto",
        metadata=_is(
            _one_of("auto", "never"),
            "whether scripts of ended jobs are read from a live Slurm: auto (where accounting keeps them) or "
            "never",
        ),
    )
    slurmrestd: str | None = field(
        default=None,
        metadata=_is(
            _slurmrestd,
            "where slurmrestd listens: http://HOST:6820, https://HOST or unix:/PATH/OF/SOCKET",
            "http://slurm.example.org:6820",
        ),
    )
    slurm_user: str | None = field(
        default=None,
        metadata=_is(_user, "user for slurmrestd requests; default: the token's", "forewarn"),
    )
    slurm_token: str | None = field(
        default=None,
        repr=False,
        metadata=_is(
            _text,
            "token for slurmrestd, the token itself; a file is safer",
            "eyJhbGciOiJIUzI1NiJ9…",
            secret=True,
        ),
    )
    slurm_token_file: Path | None = field(
        default=None,
        metadata=_is(
            _path,
            "file that holds the token, read again before it expires; else SLURM_JWT, else `scontrol token`",
            "/etc/forewarn/slurm.jwt",
        ),
    )
    slurm_ca_file: Path | None = field(
        default=None,
        metadata=_is(
            _path,
            "CA certificates for slurmrestd; default: the system's",
            "/etc/ssl/certs/site-ca.pem",
        ),
    )
    clusters: Mapping[str, ClusterConfig] = field(default_factory=lambda: MappingProxyType({}))

    def of_cluster(self, name: str | None) -> ClusterConfig:
        """Return the settings of a cluster: its own table, completed by the general settings."""
        own = self.clusters.get(name or "", ClusterConfig())
        return dataclasses.replace(own, timezone=own.timezone or self.timezone)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from."""

    layer: str  # flag, environment, file or default
    place: str = ""  # the flag, the variable, or the file

    def __str__(self) -> str:
        return f"{self.layer} {self.place}".strip()


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The configuration, the origin of each value, and the file that was or would be read."""

    config: Config
    origins: Mapping[str, Origin]
    file: Path

    def values(self) -> Iterator[tuple[str, Any, Origin]]:
        """Return every value by its dotted name with its origin; of a secret only that it is set."""
        for name, setting in settings(Config).items():
            value = getattr(self.config, name)
            shown = "(set, not shown)" if setting.metadata["secret"] and value is not None else value
            yield name, shown, self.origins[name]
        for cluster, own in sorted(self.config.clusters.items()):
            for name in settings(ClusterConfig):
                dotted = f"clusters.{cluster}.{name}"
                if dotted in self.origins:
                    yield dotted, getattr(own, name), self.origins[dotted]


def settings(table: type[Config] | type[ClusterConfig]) -> dict[str, dataclasses.Field[Any]]:
    """Return the settings of a table by name."""
    return {f.name: f for f in dataclasses.fields(table) if "read" in f.metadata}


def variable(name: str) -> str:
    """Return the environment variable of a setting.

    >>> variable("known_delay")
    'FOREWARN_KNOWN_DELAY'
    """
    return PREFIX + name.upper()


# --- resolving --------------------------------------------------------------------------------------


def resolve(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> ResolvedConfig:
    """Combine flags, environment and file into the configuration. A flag that is None was not given."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {"home": default_home(environ)}
    origins: dict[str, Origin] = {name: Origin("default") for name in settings(Config)}

    def take(name: str, value: object, origin: Origin) -> None:
        values[name] = _read(settings(Config)[name], value, str(origin), name)
        origins[name] = origin

    def take_outer(name: str) -> None:
        if environ.get(variable(name)):
            take(name, environ[variable(name)], Origin("environment", variable(name)))
        if flags and flags.get(name) is not None:
            take(name, flags[name], Origin("flag", "--" + name.replace("_", "-")))

    take_outer("home")
    named = environ.get(CONFIG_VARIABLE)
    file = Path(named).expanduser() if named else values["home"] / CONFIG_FILE
    for name, value in _load(file, must_exist=bool(named)).items():
        if name == "clusters":
            values["clusters"] = _clusters(value, file, origins)
        elif name not in settings(Config):
            raise _unknown(f"{file}", name, [*settings(Config), "clusters"])
        elif name == "home" and not named:
            raise UsageError(
                f"{file}: home: this file is found through the home folder, so it cannot move it. "
                f"Set {variable('home')} or use --home"
            )
        else:
            take(name, value, Origin("file", str(file)))
            if name == "home":  # a relative folder in a file is beside the file, wherever one stands
                values["home"] = file.parent / values["home"]
    for name in settings(Config):
        take_outer(name)
    return ResolvedConfig(Config(**values), MappingProxyType(origins), file)


def _load(file: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise UsageError(f"{file}: no such file (named by {CONFIG_VARIABLE})") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not a TOML file: {error}") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None


def _clusters(tables: object, file: Path, origins: dict[str, Origin]) -> Mapping[str, ClusterConfig]:
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise UsageError(f"{file}: clusters: must hold tables, one for each cluster: [clusters.NAME]")
    known = settings(ClusterConfig)
    found: dict[str, ClusterConfig] = {}
    for cluster, table in tables.items():
        values = {}
        for name, value in table.items():
            dotted = f"clusters.{cluster}.{name}"
            if name not in known:
                raise _unknown(f"{file}", dotted, [f"clusters.{cluster}.{k}" for k in known])
            values[name] = _read(known[name], value, f"file {file}", dotted)
            origins[dotted] = Origin("file", str(file))
        found[cluster] = ClusterConfig(**values)
    return MappingProxyType(found)


def _read(setting: dataclasses.Field[Any], value: object, place: str, name: str) -> Any:
    try:
        return setting.metadata["read"](value)
    except ValueError as wanted:
        shown = "its value" if setting.metadata["secret"] else repr(value)
        raise UsageError(f"{place}: {name}: {shown} is not {wanted}") from None


def _unknown(place: str, name: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else "known are " + ", ".join(known)
    return UsageError(f"{place}: {name}: no such setting; {hint}")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return variables that look like settings but are none: a warning, since other tools may use them."""
    known = OTHER_VARIABLES | {variable(name) for name in settings(Config)}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def template() -> str:
    """Write a config file with every setting as a comment, with its default or an example."""
    lines = ["# Forewarn's configuration. `forewarn config show` shows each value and where it comes from."]
    for name, setting in settings(Config).items():
        if name != "home":  # cannot be set by the file that is found through it
            lines += ["", *_commented(setting)]
    lines += ["", "# One table for each cluster that differs from the above:", "# [clusters.alps]"]
    for setting in settings(ClusterConfig).values():
        lines += _commented(setting)
    return "\n".join(lines) + "\n"


def _commented(setting: dataclasses.Field[Any]) -> list[str]:
    value = setting.default if setting.default is not None else setting.metadata["example"]
    text = str(value) if isinstance(value, int) else f'"{value}"'
    return [f"# {setting.metadata['help']}", f"# {setting.name} = {text}"]
