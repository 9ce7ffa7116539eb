"""No text of a job reaches the terminal as anything but text."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

import forewarn as package
from forewarn.serve.cli.terminal.console import Terminal
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say
from forewarn.serve.cli.terminal.safe_text import echo, json_visible, one_line, visible
from tests.serve.conftest import Forewarn

EVIL = "x\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202egpj.exe\u2066\r\x00"
BAD = "\x1b\x07\x9b\x7f\u202e\u2066\r\x00"


def is_clean(text: str) -> bool:
    return not any(char in text for char in BAD)


def test_texts_are_shown_not_obeyed() -> None:
    assert is_clean(visible(EVIL))
    assert visible("plain é 漢字 🙂 a\tb\nc") == "plain é 漢字 🙂 a\tb\nc"
    assert one_line("a\nb") == "a\\nb"
    assert json.loads(json_visible(json.dumps({"a": EVIL}, ensure_ascii=False))) == {"a": EVIL}
    assert is_clean(json_visible(json.dumps({"a": EVIL}, ensure_ascii=False)))


def test_every_way_out_is_gated(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    note(EVIL)
    echo(EVIL)
    print_json({EVIL: EVIL})
    print_facts(EVIL, {"name": EVIL, "styled": Text(EVIL, style="red")})
    print_table(["name"], [[EVIL], ["[red]as it is[/red]"]])
    Terminal().print(EVIL, "[bold]kept[/bold]")
    table = Table()
    table.add_row(EVIL)
    Terminal(err=True).print(table)
    out, err = capsys.readouterr()
    assert is_clean(out)
    assert is_clean(err)
    assert "[red]as it is[/red]" in out
    assert "[bold]kept[/bold]" in out


def test_colours_and_progress_lines_still_work() -> None:
    terminal = Terminal(force_terminal=True, color_system="standard", width=60)
    terminal.file = io.StringIO()
    with Progress(console=terminal) as shown:
        shown.add_task(EVIL, total=1)
    terminal.print(Text(EVIL, style="red"))
    written = terminal.file.getvalue()
    assert "\x1b[31m" in written
    assert "\x1b]0;" not in written
    assert "\x1b[2J" not in written


def test_nothing_else_writes_to_the_terminal() -> None:
    """Only the gate itself may call what writes; rich's console is created in one place."""
    root = Path(package.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        if path.name == "precompile.py":  # for whoever installs: it prints the folders that it filled
            continue
        if path.name in ("safe_text.py", "console.py") and path.parent.name == "terminal":
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name in (
                "print",
                "click.echo",
                "click.secho",
                "Console",
                "traceback.print_exc",
                "rich.print",
            ) or (name.endswith(("stdout.write", "stderr.write", "buffer.write"))):
                found.append(f"{path.relative_to(root)}:{node.lineno}: {name}")
    assert found == []


def sacct(folder: Path) -> Path:
    names = "JobID|JobIDRaw|User|Account|JobName|Partition|WorkDir|State|ExitCode|Submit|Start|End|ElapsedRaw"
    evil = EVIL.replace("\r", "").replace("\x00", "")
    times = "2024-05-01T10:00:00|2024-05-01T10:00:01|2024-05-01T10:00:09|8"
    rows = [f"{n}|{n}|ann|{evil}|{evil}|main|/home/{evil}|FAILED|1:0|{times}" for n in (1, 2)]
    path = folder / "history.txt"
    path.write_text("\n".join([names, *rows]) + "\n", encoding="utf-8")
    return path


def test_jobs_and_explain(forewarn: Forewarn, tmp_path: Path) -> None:
    forewarn("ingest", "-M", "alps", f"sacct:{sacct(tmp_path)}")
    everything = "job_id,name,account,work_dir,state"
    calls = [
        ("jobs",),
        ("jobs", "--format", everything),
        ("jobs", "--parsable", "--format", everything),
        ("jobs", "--json"),
        ("jobs", "--by", "account"),
        ("explain", "1"),
        ("explain", "1", "--json"),
        ("explain", EVIL),
        ("jobs", "-u", EVIL),
    ]
    shown = ""
    for call in calls:
        result = forewarn(*call)
        assert is_clean(result.out), call
        assert is_clean(result.err), call
        shown += result.out
    assert "\\x1b]0;owned" in shown, "it was there to be shown"
