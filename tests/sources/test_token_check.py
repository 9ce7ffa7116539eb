"""Tests of asking slurmrestd about tokens: a refusal, and a controller that is down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from forewarn.errors import ControllerDownError, TokenError
from forewarn.sources.slurmrestd.token_check import TokenCheck
from forewarn.sources.slurmrestd.tokens import Token
from tests.sources.fake_slurmrestd import FakeTime, jwt, openapi

ANN, BEN = Token.read(jwt("ann")), Token.read(jwt("ben"))
DOWN = {"errors": [{"error": "Unable to contact slurm controller (connect failure)", "error_number": 1800}]}


class OldSlurm:
    """Slurm 22.05: one answer for a token that is refused and for a controller that is down."""

    def __init__(self, *accepted: Token) -> None:
        self.accepted, self.is_up = {one.text for one in accepted}, True

    @contextmanager
    def ask(self, _method: str, path: str, *, headers: dict[str, str]) -> Iterator[Any]:
        if path == "/openapi/v3":
            yield SimpleNamespace(status=200, json=lambda: openapi(38))
            return
        good = self.is_up and headers["X-SLURM-USER-TOKEN"] in self.accepted
        reply = {"statistics": {"parts_packed": 1}, "errors": []} if good else DOWN
        yield SimpleNamespace(status=200 if good else 500, json=lambda: reply)


def check_of(slurm: OldSlurm) -> TokenCheck:
    check = TokenCheck("http://127.0.0.1:1", clock=FakeTime().clock)
    check._transport.ask = slurm.ask  # type: ignore[method-assign, assignment]
    return check


def test_an_old_controller_that_is_down_is_no_refusal() -> None:
    slurm = OldSlurm(ANN)
    check = check_of(slurm)
    with pytest.raises(ControllerDownError):  # nothing was accepted yet: nobody can know
        check.confirm(BEN)
    check.confirm(ANN)
    with pytest.raises(TokenError):  # another is accepted still
        check.confirm(BEN)
    slurm.is_up = False
    for token in (ANN, BEN):
        with pytest.raises(ControllerDownError):
            check.confirm(token)
    slurm.is_up = True
    check.confirm(ANN)
