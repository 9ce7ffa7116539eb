"""`forewarn serve` on an empty home: live jobs are listed while the history of the cluster is read."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from tests.serve.rest.conftest import Start

pytestmark = pytest.mark.slow


def test_live_jobs_are_listed_before_the_history_is_read(start: Start, tmp_path: Path) -> None:
    service = start(tmp_path / "home", environment={"FOREWARN_SCHEDULER": "simulator"})
    with httpx.Client(base_url=service.url, timeout=60) as client:

        def total(state: str) -> int:
            answer = client.get("/v1/jobs", params={"state": state, "limit": 1, "order": "submit"})
            return int(answer.raise_for_status().json()["total"])

        def is_reading() -> bool:
            detail: str | None = client.get("/readyz").json()["parts"]["store"]["detail"]
            return detail == "reading history"

        until = time.monotonic() + 120
        while not (total("pending") and total("running")):
            assert time.monotonic() < until, service.text
            time.sleep(0.1)
        read_so_far = total("completed")
        assert is_reading()
        while total("completed") <= read_so_far:
            assert time.monotonic() < until, "the history goes on"
            time.sleep(0.1)
        assert client.get("/v1/assessments").json()["assessments"] == []  # only with the whole history
    assert "Traceback" not in service.text
