"""A whole script: its options, its body, the facts that are kept of it, and the job that it requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from forewarn.job.record import Job, Partition
from forewarn.job.sbatch.body import Body, read_body
from forewarn.job.sbatch.directives import Directive, Directives, read_directives
from forewarn.job.sbatch.options import SbatchOptions, collect_options
from forewarn.job.sbatch.problems import Problem
from forewarn.job.sbatch.request import SbatchRequest, read_request, to_job
from forewarn.job.sbatch.script_facts import ScriptFacts, facts_of
from forewarn.job.sbatch.sized_memory import SizedMemory

_NOTHING: Mapping[str, str] = MappingProxyType({})
_JOB_ID = re.compile(r":(\d+(?:_(?:\d+|\*))?)", re.ASCII)
_MOST_COMPONENTS = 1000  # of a heterogeneous job that are read: each costs as much as a whole command line


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script as read, with the options of its submission; its body is read when it is needed first."""

    text: str
    directives: Directives
    components: tuple[SbatchOptions, ...]  # of a heterogeneous job; one of any other
    request: SbatchRequest
    known_body: Body | None = field(default=None, compare=False, repr=False)

    @cached_property
    def body(self) -> Body:
        """The script without its options."""
        return self.known_body or read_body(self.text)

    @cached_property
    def facts(self) -> ScriptFacts:
        """The facts that are kept of it."""
        return facts_of(self.text, self.body)

    @property
    def options(self) -> SbatchOptions:
        """The options of the job; of a heterogeneous job, those of its first component."""
        return self.components[0]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems with its options."""
        found = [problem for options in self.components for problem in options.problems]
        return tuple(dict.fromkeys((*self.directives.problems, *found, *self.request.problems)))

    @property
    def memory_floor(self) -> SizedMemory | None:
        """The largest amount of memory that the script sets for a program."""
        return self.body.memory

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The jobs that it waits for, by id."""
        return tuple(dict.fromkeys(_JOB_ID.findall(self.request.dependency or "")))

    def job(
        self,
        cluster: str,
        user: str | None,
        submit: int,
        work_dir: str | None = None,
        *,
        script_name: str | None = None,
        job_id: str = "0",
        submit_line: str | None = None,
        partitions: tuple[Partition, ...] = (),
    ) -> Job:
        """Build the job that sbatch would submit; what only the site knows is None (see `to_job`)."""
        job = to_job(
            self.options,
            self.request,
            cluster=cluster,
            submit=submit,
            user=user,
            job_id=job_id,
            work_dir=work_dir,
            script_name=script_name,
            partitions=partitions,
        )
        return replace(
            job,
            submit_line=submit_line,
            script_hash=self.facts.hash,
            script_language=self.facts.language,
            script_modules=self.facts.modules,
            script_launcher=self.facts.launcher,
            script_environment=self.facts.environment,
        )


def read_script(
    text: str,
    *,
    command_line: Sequence[str] = (),
    environment: Mapping[str, str] = _NOTHING,
    slurm: str | None = None,
    body: Body | None = None,
) -> Script:
    r"""Read a script as sbatch will, with the options of its command line and environment.

    Parameters
    ----------
    slurm
        The version that will read it, such as ``24.11``; None accepts the options of all versions.
    body
        The body, if it was read before from a script that differs in its lines of options only.

    >>> text = "#!/bin/sh\n#SBATCH -N2 --mem=4G # all of it\npython a.py\n"
    >>> script = read_script(text, command_line=["-n", "8"])
    >>> job = script.job("c", "ann", 0)
    >>> job.nodes_asked, job.tasks_asked, job.memory_asked >> 30, job.memory_per, script.options.line("mem")
    (2, 8, 4, 'node', 2)
    """
    directives = read_directives(text, slurm)
    count = 1 + max((directive.component for directive in directives.read), default=0)
    lines: list[list[Directive]] = [[] for _ in range(min(count, _MOST_COMPONENTS))]
    for directive in directives.read:
        if directive.component < len(lines):
            lines[directive.component].append(directive)
    components = tuple(
        collect_options(own, command_line=command_line, environment=environment, slurm=slurm) for own in lines
    )
    return Script(
        text=text,
        directives=directives,
        components=components,
        request=read_request(components[0]),
        known_body=body,
    )
