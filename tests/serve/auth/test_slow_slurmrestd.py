"""A slurmrestd that hangs: those whose proof is of another kind are served all the same."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import jwt
import pytest

from forewarn.config import AccessConfig, Config
from forewarn.operate.access.identity import Role
from forewarn.sources.slurmrestd.token_check import MOST_WAITING
from forewarn.store.people_embedded import open_embedded_people
from tests.serve.auth.app import access_app, served
from tests.sources.fake_slurmrestd import HttpRequest, Reply, serving

pytestmark = pytest.mark.slow
GUESSES = 80  # twice the threads in which callers are authenticated


def test_forged_tokens_do_not_take_all_threads(tmp_path: Path) -> None:
    answers = threading.Event()

    def hang(_: HttpRequest) -> Reply:
        answers.wait(60)
        return None

    def guess(url: str, number: int) -> int:
        token = jwt.encode({"sun": f"user{number}", "exp": int(time.time()) + 600}, bytes(64))
        return httpx.get(f"{url}/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code

    with (
        serving(hang) as slurm,
        open_embedded_people(tmp_path) as people,
        ThreadPoolExecutor(GUESSES) as pool,
    ):
        access = AccessConfig(slurm_tokens="slurmrestd", service_tokens=True)
        app, checked = access_app(Config(access=access, slurmrestd=slurm.address), people)
        text, _ = checked.service_tokens.create("grafana", Role.HELPER, by="root")
        with served(app) as url:
            guesses = [pool.submit(guess, url, number) for number in range(GUESSES)]
            until = time.monotonic() + 30
            while sum(one.done() for one in guesses) < GUESSES - MOST_WAITING:
                assert time.monotonic() < until
                time.sleep(0.05)
            begun = time.monotonic()
            mine = httpx.get(f"{url}/v1/me", headers={"Authorization": f"Bearer {text}"}, timeout=60)
            assert (mine.status_code, mine.json()["role"]) == (200, "helper")
            assert time.monotonic() - begun < 5
            assert slurm.requests
            answers.set()
            assert {one.result() for one in guesses} == {503}
        checked.close()
