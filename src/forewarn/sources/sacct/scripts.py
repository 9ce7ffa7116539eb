"""Scripts of jobs as `sacct -B` prints them, and their facts in the records of jobs.

It prints, for each job named by number (`-j`, without which it refuses)::

    Batch Script for 3_1
    --------------------------------------------------------------------------------
    #!/bin/bash
    …

and NONE for a job without one. Scripts follow each other without a gap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from forewarn.job.sbatch.script_facts import ScriptFacts, line_facts, script_facts

_HEAD = re.compile(r"^Batch Script for (\S+)\n-{40,}\n", re.MULTILINE)
_AT_ONCE = 500  # jobs in one command: its line stays short
_REMEMBERED = 20_000  # jobs whose scripts are not requested again
SCRIPT_FIELDS = ("script_hash", "script_language", "script_modules", "script_launcher", "script_environment")


def read_scripts(text: str) -> dict[str, str]:
    r"""Split the output into scripts by job id.

    >>> read_scripts("Batch Script for 3_1\n" + "-" * 80 + "\n#!/bin/sh\ntrue\n")
    {'3_1': '#!/bin/sh\ntrue\n'}
    """
    parts = _HEAD.split(text)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {job: script for job, script in pairs if script.strip() not in ("", "NONE")}


def read_facts(text: str) -> dict[str, ScriptFacts]:
    """Read the facts of the scripts by job id."""
    return {job: script_facts(script) for job, script in read_scripts(text).items()}


class Scripts:
    """Facts of the scripts of ended jobs, each requested once.

    A collector reads the last minutes of history again in every round, with scripts that it already has.
    """

    def __init__(
        self, ask: Callable[[Sequence[str]], Mapping[str, ScriptFacts] | None], *, at_once: int = _AT_ONCE
    ) -> None:
        """Get facts from `ask`, which returns those of some jobs by id, at most `at_once` at a time.

        None from `ask` is no answer: these jobs are not remembered, and are requested again when they are
        read again.
        """
        self._ask, self._at_once = ask, at_once
        self._facts_by_job: dict[str, ScriptFacts | None] = {}

    def of(self, ids: Sequence[str]) -> dict[str, ScriptFacts]:
        """Return the facts by job id, of those jobs that have any."""
        new = [job for job in ids if job not in self._facts_by_job]
        for begin in range(0, len(new), self._at_once):
            some = new[begin : begin + self._at_once]
            answer = self._ask(some)
            if answer is None:  # the others would fail, too
                break
            # The rest of an array that was cancelled while pending (7_[2-9]) was requested by its number.
            rests = {job.partition("_")[0]: facts for job, facts in answer.items() if "_[" in job}
            self._facts_by_job |= dict.fromkeys(some) | rests | dict(answer)
        found = {job: facts for job in ids if (facts := self._facts_by_job.get(job))}
        for job in list(self._facts_by_job)[:-_REMEMBERED]:
            del self._facts_by_job[job]
        return found

    def add_facts(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Add the facts of their scripts to jobs.

        A job started by srun has no script: its submit line shows the language and the launcher.
        """
        lines = jobs["submit_line"]
        # All tasks of an array have the same script: only one of them is requested.
        owner = jobs.select(pl.coalesce(pl.col("array_job_id").cast(pl.String), "job_id")).to_series()
        batch = lines.str.contains(r"^\S*sbatch(?:\s|$)").fill_null(False) & jobs["script_hash"].is_null()
        # A list of tasks is no id: slurmrestd would refuse the whole request.
        is_list = pl.when(pl.col("job_id").str.contains("_[", literal=True))
        ids = jobs.select(is_list.then(owner).otherwise("job_id")).to_series()
        requested = dict(zip(owner.filter(batch), ids.filter(batch), strict=True))
        facts = self.of(list(requested.values()))
        values = [
            _facts(facts.get(requested.get(of, "")), line) for of, line in zip(owner, lines, strict=True)
        ]
        new = pl.DataFrame(values, schema=dict.fromkeys(SCRIPT_FIELDS, pl.String), orient="row")
        return jobs.with_columns(
            pl.coalesce(pl.col(field), new[field]).alias(field) for field in SCRIPT_FIELDS
        )


def _facts(facts: ScriptFacts | None, line: str | None) -> tuple[str | None, ...]:
    if facts is None:
        language, launcher = line_facts(line or "")
        return None, language, None, launcher, None
    return facts.hash, facts.language, facts.modules, facts.launcher, facts.environment
