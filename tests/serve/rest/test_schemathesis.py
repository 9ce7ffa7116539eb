"""Requests that schemathesis makes up from the OpenAPI document: no 5xx, and nothing that is not documented.

`EXAMPLES=500 pytest tests/serve/rest/test_schemathesis.py` is the long form (`make soak`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import forewarn
from forewarn.config import Config
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token
from tests.serve.rest.conftest import Start
from tests.serve.rest.running import RunningService

pytestmark = pytest.mark.slow
SEED = 14
EXAMPLES = int(os.environ.get("EXAMPLES", "4"))  # of each route, beside those that cover its schema
# A simulated cluster to act on: jobs are submitted and cancelled for real.
SIMULATED = {"scheduler": "simulator", "simulator": "small", "simulator_days": "1"}


def run_schemathesis(url: str, folder: Path, *options: str, examples: int) -> str:
    """Return what failed; empty if nothing did."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli"),
            *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
            *("run", f"{url}/openapi.json", "--seed", str(SEED), "--max-examples", str(examples)),
            *("--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--request-timeout", "60"),
            *("--exclude-path", "/v1/events"),  # a stream without end: test_events.py, test_fuzz.py
            *("--generation-database", "none", "--no-color", "--warnings", "off", *options),
        ],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=7200,
    )
    assert ran.returncode in (0, 1), ran.stdout
    return "" if ran.returncode == 0 else ran.stdout


def environment() -> dict[str, str]:
    return {f"FOREWARN_{name.upper()}": value for name, value in SIMULATED.items()}


def test_without_authentication(start: Start, home: Path, tmp_path: Path) -> None:
    """An operator's view: all jobs, thresholds and notices."""
    service = start(home, environment=environment())
    assert run_schemathesis(service.url, tmp_path, examples=EXAMPLES) == ""
    check_log(service)


def test_with_authentication(start: Start, home: Path, tmp_path: Path) -> None:
    """A user's token: what is another's is refused, and nothing answers without a token."""
    with forewarn.open(home) as site:
        user = site.jobs(limit=1)[0].user  # who has jobs to see
    token, _ = create_token(Config(home=home), "fuzz", Role.USER, user=user)
    service = start(home, environment=environment(), access__service_tokens=True, rate_limit=1_000_000)
    header = ("--header", f"Authorization: Bearer {token}")
    # Its many forged tokens come from one address, which is soon refused with 429: tests/operate/access.
    others = ("--exclude-checks", "ignored_auth")
    assert run_schemathesis(service.url, tmp_path, *header, *others, examples=EXAMPLES) == ""
    check_log(service)


def check_log(service: RunningService) -> None:
    assert "Traceback" not in service.text
    assert service.stop() == 0
