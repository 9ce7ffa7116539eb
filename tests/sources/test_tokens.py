"""Tests of tokens: their origin, their claims, their renewal."""

from __future__ import annotations

import base64
import json
import traceback
from pathlib import Path

import pytest

from forewarn.errors import ExpiredTokenError, TokenError
from forewarn.sources.slurmrestd.tokens import Token, Tokens, find_tokens, from_command, from_file, from_text
from tests.sources.fake_slurmrestd import NOW, FakeTime, jwt


def test_what_a_token_says_and_that_it_is_not_shown() -> None:
    token = Token.read(f"SLURM_JWT={jwt('ann')}\n")
    assert (token.user, token.issued, token.expires) == ("ann", NOW - 10, NOW + 3600)
    assert token.text == jwt("ann")
    assert token.text not in repr(token)


def test_a_token_with_padding_is_read() -> None:
    claims = base64.urlsafe_b64encode(b'{"sun": "ann"}').decode()
    assert claims.endswith("=")
    assert Token.read(f"e30=.{claims}.c2ln").user == "ann"


def saying(claims: str | bytes, header: str = "{}") -> str:
    """Return a token with these claims and this header, valid or not."""
    parts = (part.encode() if isinstance(part, str) else part for part in (header, claims, "sig"))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


SECRET = "s3cret"
UNDECODABLE = "not a JSON web token: its header, claims or signature cannot be decoded"
WRONG = {
    "garbage": "not a JSON web token",
    f"Bearer {jwt()}": "not a JSON web token",
    f"{jwt()}\n{SECRET}": "2 lines, but a token is one line",
    f"{jwt()}\r{SECRET}": "2 lines, but a token is one line",
    f"{jwt()}é{SECRET}": "not a JSON web token",
    f"{jwt()} {SECRET}": "not a JSON web token",
    f"\udcff{SECRET}": "not a JSON web token",
    "a.b.c": UNDECODABLE,
    saying("{}", header="[]"): UNDECODABLE,
    saying("{}", header=SECRET): UNDECODABLE,
    saying("{}", header="[" * 3000): UNDECODABLE,
    saying("{}", header=json.dumps({"crit": [SECRET]})): UNDECODABLE,  # PyJWT's message would quote it
    saying("[]"): UNDECODABLE,
    saying(SECRET): UNDECODABLE,
    saying(b'{"sun": "\xff"}'): UNDECODABLE,
    saying("[" * 3000): UNDECODABLE,
    saying('{"exp": ' + "9" * 5000 + "}"): UNDECODABLE,
    saying("{}") + "A": UNDECODABLE,  # no base64 text has 4n + 1 characters
    saying('{"exp": "x"}'): "exp is not a time in seconds",
    saying('{"exp": NaN}'): "exp is not a time in seconds",
    saying('{"exp": 1e999}'): "exp is not a time in seconds",
    saying('{"iat": true}'): "iat is not a time in seconds",
    saying(json.dumps({"sun": f"ann\r{SECRET}"})): "the user in the token is not a user name",
    jwt() + "A" * 70_000: "not a JSON web token",
    " \n ": "the token is empty",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_is_no_token_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(TokenError, match=f"SLURM_JWT: .*{WRONG[text]}.*get one by `scontrol") as refused:
        from_text(text, "SLURM_JWT", FakeTime().clock).current()
    shown = "".join(traceback.format_exception(refused.value))
    assert SECRET not in shown
    assert jwt() not in shown
    assert "garbage" not in shown


def test_a_file_that_holds_more_than_a_token(tmp_path: Path) -> None:
    for text in (f"{jwt()}\n{SECRET}\n".encode(), f"{jwt()}é".encode(), b"\xff\xfe"):
        (tmp_path / "token").write_bytes(text)
        with pytest.raises(TokenError) as refused:
            from_file(tmp_path / "token", FakeTime().clock).current()
        assert SECRET not in str(refused.value)


def test_a_new_one_before_the_old_one_ends() -> None:
    time, issued = FakeTime(), list[float]()

    def fetch() -> str:
        issued.append(time.now)
        return jwt(issued=int(time.now), expires=int(time.now) + 600)

    tokens = Tokens(fetch, "test", renewable=True, clock=time.clock)
    for _ in range(100):
        assert (tokens.current().expires or 0) > time.now + 50
        time.now += 30
    assert len(issued) == 6  # of 50 minutes, each used for nine


def test_one_that_cannot_be_renewed_ends_with_what_to_do() -> None:
    time = FakeTime()
    tokens = from_text(jwt(expires=NOW + 5), "SLURM_JWT", time.clock)
    assert tokens.current().user == "ann"
    time.now += 6
    with pytest.raises(
        ExpiredTokenError, match=r"SLURM_JWT: the token expired 1 second ago; get one by `scontrol token"
    ):
        tokens.current()
    assert not tokens.renew()


def test_a_file_is_read_again(tmp_path: Path) -> None:
    time, file = FakeTime(), tmp_path / "token"
    tokens = from_file(file, time.clock)
    with pytest.raises(TokenError, match="token: the token cannot be read: No such file"):
        tokens.current()
    file.write_text("\n")
    with pytest.raises(TokenError, match="the token is empty"):
        tokens.current()
    file.write_text(jwt("ann", expires=NOW + 100))
    tokens.renew()
    assert tokens.current().user == "ann"
    file.write_text(jwt("bob"))
    assert tokens.current().user == "ann"
    time.now += 95
    assert tokens.current().user == "bob"


def scontrol(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = folder / "scontrol"
    command.write_text(f"#!/bin/sh\n{body}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_scontrol_makes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol(tmp_path, f'echo "$@" > {tmp_path}/asked; echo SLURM_JWT={jwt("eve")}', monkeypatch)
    assert from_command("eve", FakeTime().clock).current().user == "eve"
    assert (tmp_path / "asked").read_text() == "token lifespan=3600 username=eve\n"


def test_scontrol_that_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol(tmp_path, "echo 'only root may do that' >&2; exit 1", monkeypatch)
    with pytest.raises(TokenError, match="gave no token: only root may do that"):
        from_command("eve").current()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(TokenError, match="no scontrol to issue one; get one by"):
        from_command(None).current()
    scontrol(tmp_path, f"echo SLURM_JWT={jwt()}; echo SLURM_JWT={jwt()} >&2; exit 1", monkeypatch)
    with pytest.raises(TokenError, match=r"gave no token: exit code 1$"):
        from_command(None).current()
    scontrol(tmp_path, "sleep 5", monkeypatch)
    with pytest.raises(TokenError, match="did not answer within"):
        from_command(None, timeout=0.2).current()


def test_the_first_place_that_there_is(tmp_path: Path) -> None:
    environ = {"SLURM_JWT": jwt()}
    file = tmp_path / "token"
    assert find_tokens("t", file, None, environ=environ).origin == "slurm_token"
    assert find_tokens(None, file, None, environ=environ).origin == str(file)
    assert find_tokens(None, None, None, environ=environ).origin == "SLURM_JWT"
    assert find_tokens(None, None, None, environ={}).origin == "scontrol token"
