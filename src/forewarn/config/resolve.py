"""Where the value of a setting comes from: flag over environment over file over default."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from forewarn.config.settings import SECTIONS, all_settings, settings
from forewarn.config.table import ClusterConfig, Config, default_home
from forewarn.errors import UsageError

PREFIX = "FOREWARN_"
CONFIG_FILE = "config.toml"
# Variables that are no settings: the file, the service that commands ask, tracebacks for developers.
CONFIG_VARIABLE = PREFIX + "CONFIG"
OTHER_VARIABLES = frozenset(
    {CONFIG_VARIABLE, PREFIX + "URL", PREFIX + "TOKEN", PREFIX + "CA_FILE", PREFIX + "DEBUG"}
)


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
        for name, setting in all_settings().items():
            section, _, own_name = name.rpartition(".")
            value = getattr(getattr(self.config, section) if section else self.config, own_name)
            shown = "(set, not shown)" if setting.metadata["secret"] and value else value
            yield name, shown, self.origins[name]
        for cluster, own in sorted(self.config.clusters.items()):
            for name in settings(ClusterConfig):
                dotted = f"clusters.{cluster}.{name}"
                if dotted in self.origins:
                    yield dotted, getattr(own, name), self.origins[dotted]


def variable(name: str) -> str:
    """Return the environment variable of a setting.

    >>> variable("known_delay"), variable("serve.listen")
    ('FOREWARN_KNOWN_DELAY', 'FOREWARN_SERVE_LISTEN')
    """
    return PREFIX + name.replace(".", "_").upper()


# --- resolving --------------------------------------------------------------------------------------


def resolve(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> ResolvedConfig:
    """Combine flags, environment and file into the configuration. A flag that is None was not given."""
    environ = os.environ if environ is None else environ
    known = all_settings()
    values: dict[str, Any] = {"home": default_home(environ)}
    origins: dict[str, Origin] = {name: Origin("default") for name in known}
    clusters: Mapping[str, ClusterConfig] = MappingProxyType({})

    def take(name: str, value: object, origin: Origin) -> None:
        values[name] = _read(known[name], value, str(origin), name)
        origins[name] = origin

    def take_outer(name: str) -> None:
        if environ.get(variable(name)):
            take(name, environ[variable(name)], Origin("environment", variable(name)))
        if flags and flags.get(name) is not None:
            take(name, flags[name], Origin("flag", "--" + name.rpartition(".")[2].replace("_", "-")))

    take_outer("home")
    named = environ.get(CONFIG_VARIABLE)
    file = Path(named).expanduser() if named else values["home"] / CONFIG_FILE
    for name, value in _flat(_load(file, must_exist=bool(named)), file):
        if name == "clusters":
            clusters = _clusters(value, file, origins)
        elif name not in known:
            table = SECTIONS.get(name.partition(".")[0], Config)
            near = [one for one in known if table is Config or one.startswith(name.partition(".")[0] + ".")]
            raise _unknown(f"{file}", name, [*near, "clusters"] if table is Config else near)
        elif name == "home" and not named:
            raise UsageError(
                f"{file}: home: this file is found through the home folder, so it cannot move it. "
                f"Set {variable('home')} or use --home"
            )
        else:
            take(name, value, Origin("file", str(file)))
            if name == "home":  # a relative folder in a file is beside the file, wherever one stands
                values["home"] = file.parent / values["home"]
    for name in known:
        take_outer(name)
    config = Config(**_with_sections(values), clusters=clusters)
    return ResolvedConfig(config, MappingProxyType(origins), file)


def _flat(tables: Mapping[str, Any], file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a file by their dotted names; `clusters` stays as it is."""
    for name, value in tables.items():
        if name not in SECTIONS:
            yield name, value
        elif not isinstance(value, dict):
            raise UsageError(f"{file}: {name}: must be a table: [{name}]")
        else:
            yield from ((f"{name}.{own_name}", own) for own_name, own in value.items())


def _with_sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the values of dotted names into the sections of the configuration."""
    of_section: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    general: dict[str, Any] = {}
    for name, value in values.items():
        section, _, own_name = name.rpartition(".")
        (of_section[section] if section else general)[own_name] = value
    return general | {section: SECTIONS[section](**own) for section, own in of_section.items()}


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


def _read(setting: Field[Any], value: object, place: str, name: str) -> Any:
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
    known = OTHER_VARIABLES | {variable(name) for name in all_settings()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
