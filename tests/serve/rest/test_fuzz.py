"""Made-up scripts, jobs and bodies: an answer or a problem for each, never a 500, never a traceback.

`EXAMPLES=500` makes it longer (`make soak`).
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from forewarn.job.json_form import RULES
from tests.serve.rest.running import RunningService

pytestmark = pytest.mark.slow
EXAMPLES = int(os.environ.get("EXAMPLES", "60"))
random_examples = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
HUGE = st.sampled_from([2**63, 2**64, -(2**63), 10**400, -1, 0, 1e308, 5e-324, -0.0])
TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | HUGE | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
# Values that fit the fields more often than not, so that some jobs reach the model.
NAMES = st.sampled_from(sorted(RULES))
VALUES = st.integers(0, 10**7) | st.sampled_from(["main", "1-10", "n[1-4]", "gpu:1", "RUNNING", "node"]) | ANY
JOBS = st.dictionaries(NAMES | TEXT, VALUES, max_size=12)
LINES = st.sampled_from(
    [
        *("#!/bin/bash", "#SBATCH --time=1:00:00", "#SBATCH --mem=4G", "#SBATCH --array=0-999999999%5"),
        *(
            "#SBATCH --time=99999999999999999999",
            "#SBATCH -N 1-",
            "#SBATCH --gres=gpu:-1",
            "#SBATCH",
            "srun a",
        ),
        *(
            "module load x",
            "cat <<EOF",
            "EOF",
            "if [ 1",
            "$(",
            "'",
            "set -euo pipefail",
            "#SBATCH --mem=1e400",
        ),
        *(
            "#SBATCH --dependency=afterok:1:2:3",
            "#SBATCH --nodelist=n[0-99999999]",
            "mpirun -np 1000000000 a",
        ),
    ]
)
SCRIPTS = st.lists(LINES | TEXT, max_size=20).map("\n".join)
BODIES = (
    st.binary(max_size=300)
    | st.sampled_from(
        [
            b'{"time_limit": NaN}',
            b'{"time_limit": Infinity}',
            b'{"time_limit": 1e999}',
            b'{"time_limit": ' + b"9" * 5000 + b"}",
            b'{"name": "\\ud800"}',
            b'{"name": "\\u0000"}',
            b'{"a":' * 20_000,
            b"[" * 100_000 + b"]" * 100_000,
            b'{"jobs": ' + b"[" * 500 + b"]" * 500 + b"}",
            b"\xef\xbb\xbf{}",
            b'{"name": "a", "name": "b"}',
            b"\xff\xfe{\x00}\x00",
            b"",
            b"null",
            b'"' + b"a" * 1_000_000 + b'"',
        ]
    )
    | ANY.map(lambda value: json.dumps(value).encode())
)


def check(answer: httpx.Response) -> None:
    assert answer.status_code in (200, 400, 404, 413, 422), answer.text
    kind = "application/json" if answer.status_code == 200 else "application/problem+json"
    assert answer.headers["content-type"] == kind
    answer.json()
    assert "Traceback" not in answer.text


@seed(14)
@random_examples
@given(job=JOBS, detail=st.sampled_from(["brief", "full"]))
def test_jobs(http: httpx.Client, job: dict[str, Any], detail: str) -> None:
    content = json.dumps(job).encode()
    check(http.post("/v1/assess", params={"detail": detail}, content=content))
    check(http.post("/v1/assess/batch", content=json.dumps({"jobs": [job, {}]}).encode()))


@seed(14)
@random_examples
@given(script=SCRIPTS, options=st.lists(LINES | TEXT, max_size=3))
def test_scripts(http: httpx.Client, script: str, options: list[str]) -> None:
    content = json.dumps({"script": script, "options": options}).encode()
    check(http.post("/v1/check", content=content, headers={"Content-Type": "application/json"}))


@seed(14)
@random_examples
@given(
    body=BODIES,
    path=st.sampled_from(
        ["/v1/assess", "/v1/assess?detail=brief", "/v1/assess/batch", "/v1/check", "/v1/jobs/1/explanation"]
    ),
)
def test_bodies(http: httpx.Client, body: bytes, path: str) -> None:
    check(http.post(path, content=body, headers={"Content-Type": "application/json"}))


@pytest.mark.parametrize(
    "script",
    [
        "\0",
        "#!/bin/sh\n" + "\0" * 1000,
        "\x7fELF" + "\0" * 100,
        "#!/bin/sh\n#SBATCH --time=1\n" * 20_000,
        "#!/bin/sh\n" + "a" * 2_000_000,
        "#!/bin/sh\n" + "$(" * 20_000,
        "#!/bin/sh\n" + "if true; then\n" * 20_000,
        "#!/bin/sh\n" + "cat <<E\n" * 5_000,
        "#!/bin/sh\n#SBATCH --wrap='" + "x" * 100_000 + "'\n",
        "\u202e\u2066#!/bin/sh\n\x1b[2J",
        "#!/bin/sh\r\n#SBATCH --time=1:00\r\n",
        "",
        "\n" * 100_000,
    ],
    ids=range(13),
)
def test_odd_scripts(http: httpx.Client, script: str) -> None:
    check(http.post("/v1/check", json={"script": script}))


def test_nothing_of_it_is_in_the_log(service: RunningService) -> None:
    assert "Traceback" not in service.text


# schemathesis leaves the stream out, since it has no end: this reads its head only.
NUMBERS = st.floats().map(str) | st.integers().map(str)
EVENT_QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["forewarn.assessment", "forewarn.job.ended", "forewarn.gap"]) | TEXT,
        "user": TEXT,
        "cluster": st.just("small") | TEXT,
        "hours_at_risk": NUMBERS | TEXT,
        "after": NUMBERS | TEXT,
        "limit": TEXT,
    },
)
IDS = st.none() | st.integers().map(str) | st.text(st.characters(codec="ascii", categories=["L", "N", "P"]))


@seed(8)
@random_examples
@given(query=EVENT_QUERIES, last_id=IDS)
def test_queries_of_the_stream_of_events(
    service: RunningService, http: httpx.Client, query: dict[str, str], last_id: str | None
) -> None:
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    for _ in range(100):  # a stream that was left counts for a moment
        with http.stream("GET", "/v1/events", params=query, headers=headers) as answer:
            kind = answer.headers["content-type"].partition(";")[0]
            if answer.status_code == 429:
                time.sleep(0.1)
                continue
            if answer.status_code == 200:
                assert kind == "text/event-stream"
                assert next(answer.iter_lines()).startswith("retry: ")
            else:
                assert (answer.status_code in (400, 422), kind) == (True, "application/problem+json")
        break
    else:
        raise AssertionError("streams that were left count still")
    assert "Traceback" not in service.text
