"""The input of a rule: the script, its path, and the host that it is checked on."""

from __future__ import annotations

import ast
import math
import os.path
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from forewarn.assess.script.host import Host
from forewarn.assess.script.python_code import parsed
from forewarn.evidence import Value
from forewarn.job.sbatch.calls import Call
from forewarn.job.sbatch.files import FileUse, Use
from forewarn.job.sbatch.script import Script
from forewarn.job.sbatch.shell import is_plain
from forewarn.local_host.elf import Program, read_program

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
# Variables with another value inside the job.
_OF_THE_JOB = re.compile(r"SLURM_(?!SUBMIT_DIR$)|TMPDIR$|SCRATCH_LOCAL|LOCAL_SCRATCH|PWD$|OLDPWD$|HOSTNAME$")
# Folders that differ between machines.
_OF_THE_MACHINE = (
    *("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/etc/", "/var/", "/run/", "/tmp/", "/local", "/boot/"),
    "/root/",
)
# Programs that create no file that the script would use.
_MAKE_NOTHING_WORDS = """
    module ml cd echo printf export set unset ulimit umask date hostname pwd env printenv sleep true false
    test [ id whoami uname nproc free df ls cat head tail grep wc which type conda mamba micromamba activate
    deactivate nvidia-smi scontrol squeue sinfo mkdir rm
"""
_MAKE_NOTHING = frozenset(_MAKE_NOTHING_WORDS.split())
_INSTALLERS_WORDS = "pip pip3 uv install venv virtualenv create sync spack eval poetry pixi"
_INSTALLERS = frozenset(_INSTALLERS_WORDS.split())
LARGEST_PROGRAM = 1 << 24  # bytes that are read of one: the ELF tables are near its beginning
LARGEST_PYTHON = 1 << 20


@dataclass(frozen=True)
class ScriptContext:
    """A script to check, and the host to check it on."""

    script: Script
    path: Path
    host: Host
    work_dir: Path = field(default_factory=Path)

    @cached_property
    def folder(self) -> str:
        """The working folder of the job: `--chdir`, else where sbatch is called."""
        chdir = self.script.options.value("chdir")
        base = os.path.abspath(self.work_dir)  # noqa: PTH100 - no look at the file system, no symlinks resolved
        return os.path.normpath(os.path.join(base, chdir)) if chdir else base  # noqa: PTH118

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The values of variables that the script does not set."""
        known = {n: v for n, v in self.host.environment.items() if not _OF_THE_JOB.match(n)}
        set_inside = {name for command in self.script.body.commands for name, _ in command.variables}
        return {n: v for n, v in known.items() if n not in set_inside} | {
            "SLURM_SUBMIT_DIR": os.path.abspath(self.work_dir)  # noqa: PTH100
        }

    def resolve(self, text: str) -> str | None:
        """Return the full path as the job will see it; None where it depends on values inside the job."""
        filled = _VARIABLE.sub(lambda m: self.variables.get(m[1] or m[2], m[0]), text)
        home = self.host.environment.get("HOME")
        if home and (filled == "~" or filled.startswith("~/")):
            filled = home + filled[1:]
        if not is_plain(filled) or filled.startswith("~"):
            return None
        return os.path.normpath(os.path.join(self.folder, filled))  # noqa: PTH118

    def may_be_created(self, use: FileUse, full_path: str) -> bool:
        """Check whether the script itself may have created a file, or its folder, before this use."""
        created, place = self._created_at, self._places[id(use)]
        if created.get(None, place) < place:  # written to an unknown path: it may be this one
            return True
        while created.get(full_path, place) >= place:
            above = full_path.rpartition("/")[0]
            if above in ("", full_path):
                return False
            full_path = above
        return True

    @cached_property
    def _created_at(self) -> Mapping[str | None, int]:
        """The first place, among the files used, at which each path is created; None: an unknown path."""
        found: dict[str | None, int] = {}
        for place, use in enumerate(self.script.body.files):
            if use.use in (Use.WRITE, Use.MAKE):
                found.setdefault(self.resolve(use.path), place)
        return found

    @cached_property
    def _places(self) -> Mapping[int, int]:
        return {id(use): place for place, use in enumerate(self.script.body.files)}

    @cached_property
    def files_of_line(self) -> Mapping[int, list[FileUse]]:
        """The files that each line of the script uses."""
        found: dict[int, list[FileUse]] = {}
        for use in self.script.body.files:
            found.setdefault(use.line, []).append(use)
        return found

    def may_add_packages(self, line: int) -> bool:
        """Check whether a module, a variable or an installation before a line may add Python packages."""
        return bool(self.script.body.modules) or line >= self._packages_from

    @cached_property
    def _packages_from(self) -> float:
        body = self.script.body
        lines = [c.line for c in body.commands if any(name.startswith("PYTHON") for name, _ in c.variables)]
        lines += [call.line + 1 for call in body.calls if _INSTALLERS & {call.name, *call.arguments}]
        return min(lines, default=math.inf)

    @cached_property
    def program_at(self) -> Callable[[str], Program | None]:
        """Read a compiled program, once for all its calls; None where it is none."""

        def read(path: str) -> Program | None:
            data = self.host.head(path, LARGEST_PROGRAM)
            return read_program(data) if data else None

        return lru_cache(maxsize=1000)(read)

    @cached_property
    def python_at(self) -> Callable[[str], ast.Module | None]:
        """Read a Python script, once for all its calls; None where it cannot be read."""
        return lru_cache(maxsize=16)(lambda path: parsed(self.host.head(path, LARGEST_PYTHON)))

    def is_certain(self, use: FileUse, full_path: str) -> bool:
        """Check whether a missing file will certainly be missing for the job.

        It may be created by a job that this one depends on, before a later `--begin`, by a program that runs
        before, or exist only on the compute nodes.
        """
        if self.script.request.dependency or self.begins_later or not self.is_shared(full_path):
            return False
        return self._maker_before(use) is None

    def possible_creator(self, use: FileUse) -> dict[str, Value]:
        """Return what may create the file before its use: a dependency, time until `--begin`, a program."""
        if self.script.request.dependency:
            return {"unless": "dependency"}
        if self.begins_later:
            return {"unless": "begin"}
        maker = self._maker_before(use)
        return {"unless": "program", "maker": maker} if maker else {}

    @property
    def begins_later(self) -> bool:
        """Whether `--begin` delays the start of the job."""
        return self.script.options.value("begin") not in (None, "", "now")

    def _maker_before(self, use: FileUse) -> str | None:
        first = self._first_maker
        return first.name if first is not None and first.line < use.line else None

    @cached_property
    def _first_maker(self) -> Call | None:
        """The first program that may create a file; calls are in the order of their lines."""
        return next((call for call in self.script.body.calls if call.name not in _MAKE_NOTHING), None)

    def is_shared(self, full_path: str) -> bool:
        """Check whether jobs see the same files at a path: work and home folders, not the machine's own."""
        homes = [os.path.abspath(self.work_dir), self.folder, self.host.environment.get("HOME") or ""]  # noqa: PTH100
        if any(
            full_path == home or full_path.startswith(f"{home}/") for home in homes if home not in ("", "/")
        ):
            return True
        return (
            not full_path.startswith(_OF_THE_MACHINE)
            and self.host.same_file_system(full_path, homes[0]) is True
        )

    @cached_property
    def runs_other_scripts(self) -> bool:
        """Whether a login shell or a sourced file may set up what is not visible now."""
        first = self.script.text.partition("\n")[0].split()
        return bool({"-l", "--login"} & set(first[1:])) or any(
            call.program in ("source", ".", "eval") for call in self.script.body.calls
        )

    @cached_property
    def changes_programs(self) -> bool:
        """Whether modules, environments, a login shell or a changed PATH may add programs."""
        body = self.script.body
        if self.runs_other_scripts:
            return True
        names = {name for command in body.commands for name, _ in command.variables}
        return bool(body.modules or body.environments or names & {"PATH", "LD_LIBRARY_PATH"}) or any(
            call.program in ("spack", "conda", "mamba", "module", "ml", "pip", "pip3") for call in body.calls
        )
