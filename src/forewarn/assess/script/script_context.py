"""What a rule looks at: the script, where it is, and what is around it."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from forewarn.assess.script.host import Host
from forewarn.evidence import Value
from forewarn.job.sbatch.calls import Call
from forewarn.job.sbatch.files import FileUse, Use
from forewarn.job.sbatch.script import Script
from forewarn.job.sbatch.shell import is_plain

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
# Known only inside the job, whatever they hold here.
_OF_THE_JOB = re.compile(r"SLURM_(?!SUBMIT_DIR$)|TMPDIR$|SCRATCH_LOCAL|LOCAL_SCRATCH|PWD$|OLDPWD$|HOSTNAME$")
# Each machine has its own of these.
_OF_THE_MACHINE = (
    *("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/etc/", "/var/", "/run/", "/tmp/", "/local", "/boot/"),
    "/root/",
)
# Programs that leave no file behind that the script would use.
_MAKE_NOTHING_WORDS = """
    module ml cd echo printf export set unset ulimit umask date hostname pwd env printenv sleep true false
    test [ id whoami uname nproc free df ls cat head tail grep wc which type conda mamba micromamba activate
    deactivate nvidia-smi scontrol squeue sinfo mkdir rm
"""
_MAKE_NOTHING = frozenset(_MAKE_NOTHING_WORDS.split())


@dataclass(frozen=True)
class ScriptContext:
    """One script under check."""

    script: Script
    path: Path
    host: Host
    work_dir: Path = field(default_factory=Path)

    @cached_property
    def folder(self) -> str:
        """Where the job begins: --chdir, else where sbatch is called."""
        said = self.script.options.value("chdir")
        base = os.path.abspath(self.work_dir)  # noqa: PTH100 - no look at the file system, no symlinks resolved
        return os.path.normpath(os.path.join(base, said)) if said else base  # noqa: PTH118

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """What a shell would put in for variables that the script leaves as they are."""
        known = {n: v for n, v in self.host.environment.items() if not _OF_THE_JOB.match(n)}
        set_inside = {name for command in self.script.body.commands for name, _ in command.variables}
        return {n: v for n, v in known.items() if n not in set_inside} | {
            "SLURM_SUBMIT_DIR": os.path.abspath(self.work_dir)  # noqa: PTH100
        }

    def place(self, text: str) -> str | None:
        """A path as the job will see it; None where that depends on what only the job knows."""
        filled = _VARIABLE.sub(lambda m: self.variables.get(m[1] or m[2], m[0]), text)
        home = self.host.environment.get("HOME")
        if home and (filled == "~" or filled.startswith("~/")):
            filled = home + filled[1:]
        if not is_plain(filled) or filled.startswith("~"):
            return None
        return os.path.normpath(os.path.join(self.folder, filled))  # noqa: PTH118

    def may_be_created(self, use: FileUse, place: str) -> bool:
        """Whether the script itself may have made a file, or its folder, by then."""
        for other, made in zip(self.script.body.files, self._places, strict=True):
            if other is use:
                break
            # Written to a place that cannot be known: it may be this one.
            if other.use in (Use.WRITE, Use.MAKE) and (
                made is None or place == made or place.startswith(made + "/")
            ):
                return True
        return False

    @cached_property
    def _places(self) -> tuple[str | None, ...]:
        """The place of each file that the script uses: computed once, since every file asks for all."""
        return tuple(self.place(use.path) for use in self.script.body.files)

    def is_certain(self, use: FileUse, place: str) -> bool:
        """Whether what is not there now will not be there for the job.

        It may be made by a job that this one waits for, before the job may begin, by a program that runs
        before, or be there only on the nodes.
        """
        if self.script.request.dependency or self.begins_later or not self.is_shared(place):
            return False
        return self._maker_before(use) is None

    def possible_creator(self, use: FileUse) -> dict[str, Value]:
        """Who may have made it by then: nobody, a job before, somebody before it begins, a program."""
        if self.script.request.dependency:
            return {"unless": "dependency"}
        if self.begins_later:
            return {"unless": "begin"}
        maker = self._maker_before(use)
        return {"unless": "program", "maker": maker} if maker else {}

    @property
    def begins_later(self) -> bool:
        """Whether --begin keeps the job from starting before a time that may be far off."""
        return self.script.options.value("begin") not in (None, "", "now")

    def _maker_before(self, use: FileUse) -> str | None:
        first = self._first_maker
        return first.name if first is not None and first.line < use.line else None

    @cached_property
    def _first_maker(self) -> Call | None:
        """The first program that may leave a file behind; calls are in the order of their lines."""
        return next((call for call in self.script.body.calls if call.name not in _MAKE_NOTHING), None)

    def is_shared(self, place: str) -> bool:
        """Whether jobs see the same there: where the user works and lives, not the machine's own folders."""
        homes = [os.path.abspath(self.work_dir), self.folder, self.host.environment.get("HOME") or ""]  # noqa: PTH100
        if any(place == home or place.startswith(f"{home}/") for home in homes if home not in ("", "/")):
            return True
        return not place.startswith(_OF_THE_MACHINE) and self.host.same_disk(place, homes[0]) is True

    @property
    def runs_other_scripts(self) -> bool:
        """Whether a login shell or a file that it reads may set up what is not here now."""
        first = self.script.text.partition("\n")[0].split()
        return bool({"-l", "--login"} & set(first[1:])) or any(
            call.program in ("source", ".", "eval") for call in self.script.body.calls
        )

    @property
    def changes_programs(self) -> bool:
        """Whether modules, environments, a login shell or a PATH of its own bring what is not here now."""
        body = self.script.body
        if self.runs_other_scripts:
            return True
        names = {name for command in body.commands for name, _ in command.variables}
        return bool(body.modules or body.environments or names & {"PATH", "LD_LIBRARY_PATH"}) or any(
            call.program in ("spack", "conda", "mamba", "module", "ml", "pip", "pip3") for call in body.calls
        )
