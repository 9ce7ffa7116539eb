"""What the pages say is there: files, commands, and fields that sacct has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forewarn.serve.cli.main import COMMANDS
from forewarn.sources.sacct.fields import FIELDS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
EXPORT = re.search(r"^sacct .* -o (\S+) > history.txt$", (ROOT / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, page.name
    assert "(decisions/)" in index


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_commands(page: Path) -> None:
    named = re.findall(r"(?:^|`|\$ |\bbin/)forewarn ([a-z]+)", page.read_text(), re.MULTILINE)
    assert set(named) <= set(COMMANDS)


def test_every_field_of_the_export_is_read() -> None:
    assert EXPORT is not None
    assert set(EXPORT[1].split(",")) <= set(FIELDS)


@pytest.mark.shared_data
@pytest.mark.parametrize("version", ["22.05.8", "24.11.5", "26.05.5"])
def test_every_field_of_the_export_is_sacct_s(version: str, shared_data: Path) -> None:
    assert EXPORT is not None
    known = (
        (shared_data / "slurmrestd" / "recorded" / version / "cli" / "sacct_helpformat.txt")
        .read_text()
        .split()
    )
    assert {name.lower() for name in EXPORT[1].split(",")} <= {name.lower() for name in known}
