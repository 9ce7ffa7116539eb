"""Findings in the text and the options."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.assess.wording import fix
from tests.assess.script.checking import check, rules_found

HEAD = "#!/bin/sh\n"


def test_a_sound_script(tmp_path: Path) -> None:
    text = HEAD + "#SBATCH -J x\n#SBATCH -t 00:10:00\n#SBATCH -n 1\nset -e\necho hello > out.txt\n"
    assert rules_found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "rule", "line", "severity"),
    [
        ("#!/bin/sh\r\n#SBATCH -n 1\r\ntrue\r\n", "windows-line-ends", 1, "error"),
        (HEAD + "true\0\n", "not-text", 2, "error"),
        ("", "empty-script", None, "error"),
        ("#SBATCH -n 1\ntrue\n", "missing-shebang", 1, "error"),
        ("\n#!/bin/sh\ntrue\n", "missing-shebang", 1, "error"),
        (HEAD + "true\n#SBATCH --mem=4G\n", "ignored-option", 3, "warning"),
        (HEAD + "# SBATCH --mem=4G\ntrue\n", "not-read", 2, "warning"),
        (HEAD + "##SBATCH --mem=4G\ntrue\n", "not-read", 2, "note"),
        (HEAD + "#SBATCH --account=<project>\ntrue\n", "placeholder", 2, "warning"),
        (HEAD + "#SBATCH -A YOUR_ACCOUNT\ntrue\n", "placeholder", 2, "warning"),
        (HEAD + "#SBATCH -p xxx\ntrue\n", "placeholder", 2, "warning"),
        (HEAD + "true YOUR_INPUT\n", "placeholder", 2, "warning"),
        (HEAD + "#PBS -l nodes=1\ntrue\n", "other-scheduler", 2, "note"),
        (HEAD + "#SBATCH --ntaks=4\ntrue\n", "unknown-option", 2, "error"),
        (HEAD + "#SBATCH --mem=4G\n#SBATCH --mem-per-cpu=1G\ntrue\n", "conflict", 3, "error"),
        (HEAD + "#SBATCH --requeue\n#SBATCH --no-requeue\ntrue\n", "conflict", 3, "warning"),
        (HEAD + "#SBATCH -t 00:10:00\n#SBATCH --time=00:20:00\ntrue\n", "given-twice", 3, "warning"),
        (HEAD + "#SBATCH --time=00:30\ntrue\n", "time-form", 2, "warning"),
        (HEAD + "#SBATCH --time=30\ntrue\n", "time-form", 2, "note"),
        (HEAD + "#SBATCH -a 1-3\n#SBATCH -o all.out\ntrue\n", "shared-output", 3, "warning"),
        (HEAD + "#SBATCH -N 3\n#SBATCH -n 2\nsrun true\n", "tasks-and-nodes", 2, "warning"),
        (
            HEAD + "#SBATCH -N 2\n#SBATCH -n 5\n#SBATCH --ntasks-per-node=2\nsrun true\n",
            "tasks-and-nodes",
            4,
            "error",
        ),
        (HEAD + "#SBATCH -n 4\necho one\n", "idle-tasks", 2, "warning"),
        (HEAD + "#SBATCH --mem=4G\njava -Xmx8g -jar a.jar\n", "memory-below-own-size", 3, "warning"),
        (
            HEAD + "#SBATCH --mem-per-cpu=1G\n#SBATCH -c 2\nsort -S 3G x\n",
            "memory-below-own-size",
            4,
            "warning",
        ),
    ],
)
def test_one_thing_wrong(tmp_path: Path, text: str, rule: str, line: int | None, severity: str) -> None:
    assert (rule, line, severity) in rules_found(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (HEAD + "#SBATCH -J xxx\n#SBATCH --comment=TODO\n# YOUR_INPUT\ntrue\n", "placeholder"),
        (HEAD + "#SBATCH -a 1-3\n#SBATCH -o all_%A_%a.out\ntrue\n", "shared-output"),
        (HEAD + "#SBATCH -t 0-00:30\ntrue\n", "time-form"),
        (HEAD + "#SBATCH -n 4\nsrun echo\n", "idle-tasks"),
        (HEAD + "#SBATCH -n 4\nfor i in 1 2; do echo $i & done\nwait\n", "idle-tasks"),
        (HEAD + "#SBATCH --mem=16G\njava -Xmx8g -jar a.jar\n", "memory-below-own-size"),
        (HEAD + "#SBATCH --mem-per-cpu=1G\n#SBATCH -c 4\nsort -S 3G x\n", "memory-below-own-size"),
        (HEAD + "#SBATCH --mem=0\njava -Xmx8g -jar a.jar\n", "memory-below-own-size"),
        (HEAD + "#SBATCH -N 2\n#SBATCH -n 4\n#SBATCH --ntasks-per-node=2\nsrun true\n", "tasks-and-nodes"),
    ],
)
def test_nothing_wrong_with_that(tmp_path: Path, text: str, rule: str) -> None:
    assert rule not in [found for found, _, _ in rules_found(tmp_path, text)]


def test_the_worst_come_first(tmp_path: Path) -> None:
    text = HEAD + "#SBATCH -t 30\n#SBATCH -t 40\n#SBATCH --foo\n"
    order = [finding.severity for finding in check(tmp_path, text)]
    assert order == sorted(order, key=["error", "warning", "note"].index)
    assert len(set(order)) == 3


def test_a_finding_says_what_to_do(tmp_path: Path) -> None:
    (finding,) = [f for f in check(tmp_path, HEAD + "#SBATCH --ntaks=2\n") if f.rule == "unknown-option"]
    assert fix(finding) == "did you mean --ntasks?"


def test_memory_of_two_kinds_by_the_command_line(tmp_path: Path) -> None:
    text = HEAD + "#SBATCH --mem=4G\ntrue\n"
    assert ("conflict", 2, "error") in rules_found(tmp_path, text, command_line=["--mem-per-cpu=1G"])
    assert rules_found(tmp_path, text, command_line=["--mem=1G"]) == []
