"""`forewarn doctor`: check Slurm, store, registry, models, service, clocks and permissions."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from forewarn.operate.doctor import DoctorFinding, Severity, examine, overall_severity
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
    """Check Slurm, the store, the models and the service, and say how to fix problems.

    \b
    Slurm        slurmrestd's address, the token, the API version, slurmctld, slurmdbd, accounting, the key
    clock        this machine against slurmctld and the service
    store        can be written, is whole, has room, has new records
    registry     MLflow answers; no trained model waits for it
    model        which models serve, the hashes of their files, the age of their data
    service      answers, and is ready; who may use it; its TLS certificate; its sockets
    permissions  nobody else reads or changes the home, the config file, files with secrets
    notices      the mail server takes mail (none is sent)

    Run it as the user that runs the service. Asks the service of the configuration, or the one that
    FOREWARN_URL names. Changes nothing, sends nothing.

    Exit code: 0 fine, 1 warning, 2 problem, 3 a check could not be done.

    \b
    Examples:
      forewarn doctor
      FOREWARN_SLURMRESTD=unix:/run/slurmrestd.sock forewarn doctor --json
      runuser -u forewarn -- forewarn doctor
    """
    findings: list[DoctorFinding] = []
    console = Terminal()
    for finding in examine(configured(home=home)):
        findings.append(finding)
        if not as_json:
            level = Text(f"{finding.level.name.lower():8}", style=_STYLE[finding.level])
            console.print(
                level.append(f"{finding.check:12}", style="default").append(finding.message), soft_wrap=True
            )
    overall = overall_severity(findings)
    if as_json:
        listed = [
            {"check": finding.check, "level": finding.level.name.lower(), "said": finding.message}
            for finding in findings
        ]
        print_json({"verdict": overall.name.lower(), "findings": listed})
    ctx.exit(int(overall))
