"""Where a lab cannot be had, one message says what is missing; these tests need no lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import needs
from lab.cli import main
from lab.errors import LabMissingError
from lab.locks import try_lock
from lab.ports import node_prefix, reserve_block
from lab.trees import find_mirror
from tests.lab.conftest import boot


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["up"]) == 3
    message = capsys.readouterr().err
    assert "root" in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(("required", "outcome"), [("1", "Failed"), ("", "Skipped")])
def test_tests_without_a_lab(
    required: str, outcome: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("FOREWARN_REQUIRE_LAB", required)
    with pytest.raises(BaseException, match="root") as raised:
        boot("24.11", tmp_path)
    assert type(raised.value).__name__ == outcome


def test_every_missing_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "found", lambda _: False)
    with pytest.raises(LabMissingError) as raised:
        needs.check_machine()
    assert all(command in str(raised.value) for command in needs.COMMANDS)


def test_without_apt_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "found", lambda _: False)
    with pytest.raises(LabMissingError, match="mmdebstrap"):
        needs.check_builder()


def test_what_apt_says_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "found", lambda command: command == "apt-get")
    monkeypatch.setattr(needs, "_apt", lambda *_: _Refusal())
    with pytest.raises(LabMissingError, match="Unable to locate package"):
        needs.check_builder()


class _Refusal:
    returncode = 100
    stderr = "E: Unable to locate package mmdebstrap\n"


def test_the_mirror_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARN_LAB_MIRROR", "https://mirror.example/debian")
    assert find_mirror() == "https://mirror.example/debian"


def test_two_labs_never_have_the_same_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, lock = reserve_block(None, lambda _: None)
    second, other = reserve_block(None, lambda _: None)
    with lock, other:
        assert first != second
        assert node_prefix(first) != node_prefix(second)
        assert try_lock(tmp_path / "forewarn/lab/ports" / f"{first}.lock") is None


def test_a_lab_that_never_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--state", str(tmp_path)]) == 1
    assert "there is no lab" in capsys.readouterr().err
