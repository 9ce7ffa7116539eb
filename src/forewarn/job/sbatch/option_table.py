"""The options that sbatch has, as sbatch 22.05, 24.11 and 26.05 list them.

Taken from the programs: getopt lists what an ambiguous abbreviation could mean (`sbatch --a`), and reports
which option requires an argument and which allows none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType


class Argument(Enum):
    """The value that an option takes: none, a required one, or an optional one joined to it by ``=``."""

    NONE = 0
    REQUIRED = 1
    OPTIONAL = 2


@dataclass(frozen=True, slots=True)
class Option:
    """One spelling of an option."""

    name: str
    argument: Argument
    means: str  # the option that this is a spelling of: mostly itself
    since: str | None = None  # the oldest version known to have it, if 22.05 has not
    until: str | None = None  # the newest version known to have it

    def known_to(self, slurm: str | None) -> bool:
        """Check whether a version has this option; None stands for any version."""
        if slurm is None:
            return True
        version = version_of(slurm)
        since, until = self.since, self.until
        return (since is None or version >= version_of(since)) and (
            until is None or version <= version_of(until)
        )


_NONE = """contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot
    spread-job test-only usage use-min-nodes verbose version wait"""
_REQUIRED = """account acctg-freq array batch bb bbf begin chdir cluster clusters cluster-constraint comment
    constraint container context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline
    delay-boot dependency distribution error exclude export export-file extra-node-info gid gpu-bind gpu-freq
    gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep
    licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile
    nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres
    open-mode output partition prefer priority profile qos reservation signal sockets-per-node switches
    tasks-per-node thread-spec threads-per-core time time-min tmp uid wait-all-nodes wckey wrap"""
# `--requeue=value` and `--get-user-env=value` are read by some versions only, so they are not reported as
# wrong.
_OPTIONAL = "exclusive get-user-env nice no-kill propagate requeue"
_SINCE = {
    "24.11": {
        Argument.NONE: "stepmgr",
        Argument.REQUIRED: "autocomplete container-id extra segment tres-bind tres-per-task",
        Argument.OPTIONAL: "oom-kill-step resv-ports",
    },
    "26.05": {
        Argument.NONE: "consolidate-segments external spread-segments",
        Argument.REQUIRED: "container-type mem-update resources",
    },
}
_MEANS = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters"}

SHORT: Mapping[str, str] = MappingProxyType(
    {
        **{"A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile"},
        **{"G": "gpus", "H": "hold", "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes"},
        **{"O": "overcommit", "Q": "quiet", "S": "core-spec", "V": "version", "W": "wait", "a": "array"},
        **{"b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error", "h": "help", "i": "input"},
        **{"k": "no-kill", "m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos"},
        **{"s": "oversubscribe", "t": "time", "v": "verbose", "w": "nodelist", "x": "exclude"},
    }
)
LETTERS: Mapping[str, str] = MappingProxyType({name: letter for letter, name in SHORT.items()})


# Of a plugin that many sites with GPUs use (https://github.com/NVIDIA/pyxis): sbatch accepts them with it.
PYXIS: Mapping[str, Option] = MappingProxyType(
    {
        name: Option(name, argument, name)
        for argument, names in (
            (Argument.REQUIRED, "container-image container-mounts container-workdir container-name"),
            (Argument.REQUIRED, "container-save container-env"),
            (Argument.NONE, "container-mount-home no-container-mount-home container-remap-root"),
            (Argument.NONE, "no-container-remap-root container-entrypoint no-container-entrypoint"),
            (Argument.NONE, "container-writable container-readonly"),
        )
        for name in names.split()
    }
)


def _all() -> dict[str, Option]:
    groups = [(Argument.NONE, _NONE), (Argument.REQUIRED, _REQUIRED), (Argument.OPTIONAL, _OPTIONAL)]
    found = [
        Option(name, argument, _MEANS.get(name, name)) for argument, names in groups for name in names.split()
    ]
    found += [
        Option(name, argument, name, since=version)
        for version, groups in _SINCE.items()
        for argument, names in groups.items()
        for name in names.split()
    ]
    found.append(Option("power", Argument.REQUIRED, "power", until="24.10"))
    return {option.name: option for option in sorted(found, key=lambda option: option.name)}


OPTIONS: Mapping[str, Option] = MappingProxyType(_all())


@lru_cache
def options_of(slurm: str | None) -> Mapping[str, Option]:
    """Return the options that a version has, by name; for None, those of any version.

    >>> "segment" in options_of("22.05"), "segment" in options_of("24.11.5"), "power" in options_of(None)
    (False, True, True)
    """
    return MappingProxyType({name: option for name, option in OPTIONS.items() if option.known_to(slurm)})


def version_of(text: str) -> tuple[int, ...]:
    """Read the year and month of a version.

    >>> version_of("24.11.5")
    (24, 11)
    """
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
