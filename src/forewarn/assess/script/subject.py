"""What a rule looks at: the script, where it is, and what is around it."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from forewarn.assess.script.surroundings import Surroundings
from forewarn.job.sbatch.files import FileUse, Use
from forewarn.job.sbatch.script import Script
from forewarn.job.sbatch.shell import is_plain

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
# Known only inside the job, whatever they hold here.
_OF_THE_JOB = re.compile(r"SLURM_(?!SUBMIT_DIR$)|TMPDIR$|SCRATCH_LOCAL|LOCAL_SCRATCH|PWD$|OLDPWD$|HOSTNAME$")


@dataclass(frozen=True)
class Subject:
    """One script under check."""

    script: Script
    path: Path
    around: Surroundings
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
        known = {n: v for n, v in self.around.environment.items() if not _OF_THE_JOB.match(n)}
        set_inside = {name for command in self.script.body.commands for name, _ in command.variables}
        return {n: v for n, v in known.items() if n not in set_inside} | {
            "SLURM_SUBMIT_DIR": os.path.abspath(self.work_dir)  # noqa: PTH100
        }

    def place(self, text: str) -> str | None:
        """A path as the job will see it; None where that depends on what only the job knows."""
        filled = _VARIABLE.sub(lambda m: self.variables.get(m[1] or m[2], m[0]), text)
        home = self.around.environment.get("HOME")
        if home and (filled == "~" or filled.startswith("~/")):
            filled = home + filled[1:]
        if not is_plain(filled) or filled.startswith("~"):
            return None
        return os.path.normpath(os.path.join(self.folder, filled))  # noqa: PTH118

    def is_made(self, use: FileUse, place: str) -> bool:
        """Whether the script itself may have made a file, or its folder, by then."""
        for other in self.script.body.files:
            if other is use:
                break
            if other.use in (Use.WRITE, Use.MAKE) and (made := self.place(other.path)) is not None:
                if place == made or place.startswith(made + "/"):
                    return True
            elif other.use in (Use.WRITE, Use.MAKE):
                return True  # somewhere that cannot be told: it may be this
        return False

    @property
    def changes_programs(self) -> bool:
        """Whether modules, environments, a login shell or a PATH of its own bring what is not here now."""
        body = self.script.body
        if {"-l", "--login"} & set(self.script.text.partition("\n")[0].split()[1:]):
            return True
        names = {name for command in body.commands for name, _ in command.variables}
        return bool(body.modules or body.environments or names & {"PATH", "LD_LIBRARY_PATH"}) or any(
            call.program in ("source", ".", "eval", "spack", "conda", "mamba", "module", "ml", "pip", "pip3")
            for call in body.calls
        )
