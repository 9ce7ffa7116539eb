"""Certainty of errors: a failing command fails the job only where the shell stops at it."""

from __future__ import annotations

import re
from dataclasses import replace

from forewarn.assess.assessment import Finding
from forewarn.assess.script.script_context import ScriptContext
from forewarn.job.sbatch.shell import Command


def limit_severity(finding: Finding, context: ScriptContext) -> Finding:
    """Turn an error of the run into a warning where the script continues after it and may still complete."""
    if finding.severity != "error" or finding.about != "run" or finding.line is None:
        return finding
    if ends_the_job(context, finding.line):
        return finding
    return replace(finding, values={**finding.values, "script_goes_on": True}, severity="warning")


def ends_the_job(context: ScriptContext, line: int) -> bool:
    """Check whether a failing command on this line fails the job.

    It does as the last command of the script, and under `set -e`. Of several on one line, such as a pipe, the
    last one's status counts: then nothing is certain without `pipefail`. A command that is tested, negated or
    in the background does not end the shell. An assignment such as `RC=$?` is a command too: as the last one
    it succeeds.
    """
    body = context.script.body
    if not body.is_shell:
        return True
    on_line = [command for command in body.commands if command.words and command.line == line]
    if not on_line:
        return True  # an option, or no command at all: the rule that found it is certain
    if any(command.tested for command in on_line):
        return False
    stops, pipes = _errexit(context, line)
    if len(on_line) > 1 and not (stops and pipes):
        return False
    return stops or on_line[-1] is body.commands[-1]


def _errexit(context: ScriptContext, line: int) -> tuple[bool, bool]:
    """Return whether the shell stops at errors at this line (`errexit`), also in a pipe (`pipefail`)."""
    first = context.script.text.partition("\n")[0].split()
    stops = first[:1] != [] and any(re.fullmatch(r"-[a-z]*e[a-z]*", word) for word in first[1:])
    pipes = False
    for command in context.script.body.commands:
        if command.line >= line:
            break
        if command.words[:1] == ("set",):
            stops, pipes = _set(command, stops, pipes)
    return stops, pipes


def _set(command: Command, stops: bool, pipes: bool) -> tuple[bool, bool]:
    for word in command.words[1:]:
        if re.fullmatch(r"[-+][a-z]*e[a-z]*", word):
            stops = word[0] == "-"
        elif word == "errexit":
            stops = "-o" in command.words or any(w[:1] == "-" and w.endswith("o") for w in command.words)
        elif word == "pipefail":
            pipes = any(w[:1] == "-" and w.endswith("o") for w in command.words)
    return stops, pipes
