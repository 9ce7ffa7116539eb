"""`forewarn check` with a service: the script is inspected here, and its job is assessed there."""

from __future__ import annotations

import getpass
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forewarn.assess.advice.script_changes import for_script
from forewarn.assess.assessment import Assessment
from forewarn.assess.script import LocalHost, repaired
from forewarn.assess.script.inspection import ScriptInspection, inspect_script
from forewarn.assess.script.inspection_json import inspection_to_json
from forewarn.assess.script.sbatch_agreement import reconcile_findings
from forewarn.assess.script.script_alone import assess_script_alone
from forewarn.errors import AccessError, ForewarnError, UsageError
from forewarn.job.sbatch.environment import VARIABLES
from forewarn.job.sbatch.script import Script, read_script
from forewarn.operate.checked_scripts import CheckResult, check_each
from forewarn.progress import Note
from forewarn.serve.client.client import Client

_FILE_NAME = re.compile(r"[^/\x00-\x1f]{1,255}")  # those that the service takes


class RemoteCheck:
    """Checks scripts with a service; after its first failure, by the script alone."""

    def __init__(
        self,
        client: Client,
        *,
        user: str | None,
        cluster: str | None,
        options: Sequence[str],
        ask_slurm: bool,
        note: Note,
    ) -> None:
        self._client, self._user, self._cluster = client, user, cluster
        self._options, self._ask_slurm, self._note = tuple(options), ask_slurm, note
        self._host, self._is_away = LocalHost(), False

    def __call__(self, raw: bytes, path: Path, name: str) -> Assessment:
        """Assess a script."""
        text = raw.decode("utf-8", "replace")  # as a check without a service
        inspection = inspect_script(
            raw,
            self._read(text),
            path,
            self._host,
            work_dir=Path.cwd(),
            options=self._options,
            environment=os.environ,
            ask_slurm=self._ask_slurm,
        )
        script = self._read(repaired(text))
        if not self._is_away:
            try:
                return self._with_commands(self._ask(text, name, inspection), script, path)
            except (UsageError, AccessError):
                raise
            except ForewarnError as error:  # fail open: the script can still be judged
                self._is_away = True
                self._note(f"checking only the script, without history: {error}")
        return self._of_script_alone(script, name, inspection)

    def _read(self, text: str) -> Script:
        return read_script(text, command_line=self._options, environment=os.environ)

    def _ask(self, text: str, name: str, inspection: ScriptInspection) -> Assessment:
        return self._client.check(
            text,
            options=self._options,
            environment={key: os.environ[key] for key in VARIABLES if key in os.environ},
            cluster=self._cluster,
            user=self._user,
            file_name=name if _FILE_NAME.fullmatch(name) and name.isprintable() else None,
            work_dir=str(Path.cwd()),
            inspection=inspection_to_json(inspection),
        )

    def _with_commands(self, assessment: Assessment, script: Script, path: Path) -> Assessment:
        """Write commands and diffs for the path as it was given here: the service has only its name."""
        if not script.text.startswith("#!"):
            return assessment
        advice = tuple(
            for_script(one, script, str(path), self._options) if one.changes else one
            for one in assessment.advice
        )
        savings = tuple(for_script(one, script, str(path), self._options) for one in assessment.savings)
        return replace(assessment, advice=advice, savings=savings)

    def _of_script_alone(self, script: Script, name: str, inspection: ScriptInspection) -> Assessment:
        at, user = int(time.time()), self._user or getpass.getuser()
        job = script.job(self._cluster or "", user, at, str(Path.cwd()), script_name=name, job_id="")
        return assess_script_alone(job, reconcile_findings(inspection.findings, inspection.answer), at=at)


def check_scripts_remotely(
    client: Client,
    *scripts: str,
    user: str | None = None,
    cluster: str | None = None,
    options: Sequence[str] = (),
    ask_slurm: bool = True,
    fix: bool = False,
    standard_input: bytes | None = None,
    note: Note,
) -> CheckResult:
    """Check scripts as `check_scripts` does, by asking a service."""
    with client:
        check = RemoteCheck(
            client, user=user, cluster=cluster, options=options, ask_slurm=ask_slurm, note=note
        )
        return check_each(scripts, check, fix=fix, standard_input=standard_input, note=note)
