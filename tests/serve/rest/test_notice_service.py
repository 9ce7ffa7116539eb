"""A running service sends mail: what another process assesses reaches its owner, once, over a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import Config
from forewarn.operate.observe import write_batches
from forewarn.operate.predict import save_assessments
from forewarn.sources.base import Batch
from forewarn.store.opening import open_store
from tests.operate.notices.samples import ended, warning
from tests.operate.notices.servers import Mailbox, smtp_server
from tests.serve.rest.running import start_service
from tests.store.samples import frame, row

pytestmark = pytest.mark.slow


def wait_until(done: Callable[[], bool], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.1)


def test_warnings_and_failures_reach_their_owners_once(tmp_path: Path) -> None:
    config, mailbox = Config(home=tmp_path / "home"), Mailbox()
    now = int(time.time())
    live = {
        "state": "PENDING",
        "outcome": None,
        "start": None,
        "end": None,
        "submit": now - 60,
        "seen_at": now - 50,
    }
    with open_store(config) as store:
        rows = [row(**asdict(ended(number)) | live) for number in ("7", "9")]
        write_batches(store, [Batch("job", frame(*rows))])
    with smtp_server(mailbox) as address:
        settings: dict[str, Any] = {
            "collect": "never",
            "access__service_tokens": "true",
            "url": "https://f.example.org",
            "notices__smtp": address,
            "notices__smtp_tls": "none",
            "notices__sender": "forewarn@example.org",
            "notices__user_address": "example.org",
            "notices__window": "0",
            "notices__minimum_hours": "0",
        }
        service = start_service(config.home, tmp_path / "first.log", **settings)
        try:
            with open_store(config) as store:
                save_assessments(store, [warning("7", submit=now - 60, made_at=now)])
            wait_until(lambda: len(mailbox.mails) == 1)
        finally:
            assert service.stop() == 0
        assert "Job 7" in mailbox.mails[0]["Subject"]
        service = start_service(config.home, tmp_path / "second.log", **settings)
        try:
            time.sleep(2)  # until it follows the store
            times = {"submit": now - 60, "start": now - 40, "end": now, "seen_at": now + 1}
            with open_store(config) as store:
                save_assessments(store, [warning("7", submit=now - 60, made_at=now + 1)])
                rows = [row(**asdict(ended("9")) | times)]
                write_batches(store, [Batch("job", frame(*rows))])
            wait_until(lambda: len(mailbox.mails) == 2)
            time.sleep(2)
        finally:
            assert service.stop() == 0
    assert [mail["To"] for mail in mailbox.mails] == ["ann@example.org"] * 2
    assert mailbox.mails[1]["Subject"] == "Job 9 (solve9x) on alps failed: out of memory"
    assert "Traceback" not in service.text
