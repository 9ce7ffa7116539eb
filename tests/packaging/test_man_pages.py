"""The manual pages: one for each command, as the command line is now, and in order by two readers of roff."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from forewarn.serve.cli.main import COMMANDS
from tests.packaging.conftest import ROOT, InTree

FOLDER = ROOT / "man"


def tool(name: str) -> ModuleType:
    """Import a script of tools/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_pages_are_current() -> None:
    written = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert written == tool("man_pages").pages(), "run `make man`"


def test_every_command_has_a_page() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {
        "forewarn",
        *(f"forewarn-{name}" for name in COMMANDS),
    }


@pytest.mark.slow
def test_pages_are_rendered(in_tree: InTree) -> None:
    """By mandoc, which reports what roff would silently drop; a page without a date is meant to be."""
    done = in_tree("mandoc -T lint -W warning /mnt/man/*.1 || true; mandoc -T utf8 /mnt/man/forewarn-check.1")
    complaints = [line for line in done.stdout.splitlines() if line.startswith("mandoc: ")]
    assert [line for line in complaints if "missing date" not in line] == []
    page = re.sub(".\b", "", done.stdout)
    assert "forewarn check [OPTIONS]" in page
    assert "SYNOPSIS" in page


def test_text_of_a_page_cannot_be_a_request(tmp_path: Path) -> None:
    roff = tool("man_pages")
    assert roff._line(".so /etc/passwd").startswith("\\&.")
    assert roff._escape("a\\b -x") == "a\\eb \\-x"


def test_example_config_is_current_and_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from forewarn.config import resolve
    from forewarn.operate.access.binding import check_bind

    generator = tool("example_config")
    assert generator.FILE.read_text() == generator.example(), "run `make man`"
    for name in ("FOREWARN_HOME", "FOREWARN_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREWARN_CONFIG", str(generator.FILE))
    config = resolve({"home": tmp_path}).config
    assert config.access.slurm_tokens == "slurmrestd"
    assert config.serve.socket == Path("/run/forewarn/api.sock")
    assert check_bind(config) == (), "a service of it starts without a warning"


def test_the_environment_file_is_one_for_systemd_and_for_shells(tmp_path: Path) -> None:
    file = ROOT / "packaging/forewarn.env"
    shell = f"set -a; . {file}; echo $FOREWARN_CONFIG $FOREWARN_HOME"
    done = subprocess.run(["sh", "-ec", shell], capture_output=True, text=True, check=True)
    assert done.stdout == "/etc/forewarn/config.toml /var/lib/forewarn\n"
