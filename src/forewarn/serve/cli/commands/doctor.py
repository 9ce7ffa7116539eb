"""`forewarn doctor`: what is wrong between Forewarn and Slurm, and what to do."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from forewarn.operate.doctor import DoctorFinding, Severity, examine, verdict
from forewarn.serve.cli.commands.common import configured, home_option, json_option
from forewarn.serve.cli.terminal.console import Terminal
from forewarn.serve.cli.terminal.output import print_json

_STYLE = {
    Severity.FINE: "green",
    Severity.WARNING: "yellow",
    Severity.PROBLEM: "red",
    Severity.UNKNOWN: "bright_black",
}


@click.command("doctor")
@home_option
@json_option
@click.pass_context
def command(ctx: click.Context, home: Path | None, as_json: bool) -> None:
    """Look for what is wrong between Forewarn and Slurm, and say what to do.

    Looks at the configuration, slurmrestd's address and socket, the token, the API's version, slurmctld,
    the clocks, slurmdbd, accounting, the key of tokens, and the store. Changes nothing.

    Exit code: 0 all is fine, 1 a warning, 2 a problem, 3 something could not be looked at.

    \b
    Examples:
      forewarn doctor
      FOREWARN_SLURMRESTD=unix:/run/slurmrestd.sock forewarn doctor --json
    """
    findings: list[DoctorFinding] = []
    console = Terminal()
    for finding in examine(configured(home=home)):
        findings.append(finding)
        if not as_json:
            level = Text(f"{finding.level.name.lower():8}", style=_STYLE[finding.level])
            console.print(
                level.append(f"{finding.check:11}", style="default").append(finding.said), soft_wrap=True
            )
    found = verdict(findings)
    if as_json:
        listed = [
            {"check": finding.check, "level": finding.level.name.lower(), "said": finding.said}
            for finding in findings
        ]
        print_json({"verdict": found.name.lower(), "findings": listed})
    ctx.exit(int(found))
