"""`forewarn serve` beside a lab: its settings as an operator would write them, and its callers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from lab.cluster import Lab
from lab.jobs import wait_until
from lab.synthetic import FIRST_JOB, delete_jobs, load_jobs
from tests.lab.site import Site
from tests.serve.rest.running import RunningService, start_service

SOON = 40.0  # seconds: a round each second, on a machine that is busy with other tests


@dataclass
class Stream:
    """What a caller gets on `/v1/events`."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def of(self, job: object) -> list[str]:
        """Return the types of the events of a job."""
        return [event["type"] for event in self.events if event["subject"] == str(job)]

    def wait(self, job: object, *types: str) -> None:
        """Wait until events of a job have come."""
        end = time.monotonic() + SOON
        while not {f"forewarn.{one}" for one in types} <= set(self.of(job)):
            assert time.monotonic() < end, (types, self.of(job))
            time.sleep(0.05)


@dataclass
class LabService:
    """A running service, and the lab that it collects from."""

    site: Site
    running: RunningService
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def lab(self) -> Lab:
        return self.site.lab

    def token(self, user: str) -> str:
        """Return a user's real token, the same each time."""
        if user not in self.tokens:
            self.tokens[user] = self.lab.token(user, 3600)
        return self.tokens[user]

    def headers(self, user: str) -> dict[str, str]:
        return {"X-SLURM-USER-TOKEN": self.token(user), "X-SLURM-USER-NAME": user}

    def client(self, user: str) -> httpx.Client:
        """Return a client that sends a user's token, as slurmrestd takes it."""
        return httpx.Client(base_url=self.running.url, timeout=60, headers=self.headers(user))

    def get(self, user: str, path: str) -> Any:
        """Return what a user gets, which must be an answer."""
        with self.client(user) as client:
            found = client.get(path)
        assert found.status_code == 200, found.text
        return found.json()

    def post(self, user: str, path: str, **body: Any) -> tuple[int, Any]:
        """Return status and answer of what a user posts."""
        with self.client(user) as client:
            answer = client.post(path, json=body or None)
        assert self.token(user) not in answer.text
        return answer.status_code, answer.json()

    def figures(self) -> dict[str, float]:
        """Return the metrics by name and labels, as an operator gets them."""
        text = httpx.get(f"{self.running.url}/metrics", headers=self.headers("erin")).text
        rows = (line.rpartition(" ") for line in text.splitlines() if line and line[0] != "#")
        return {name: float(value) for name, _, value in rows}

    def readiness(self) -> dict[str, Any]:
        """Return what an operator reads; a stranger gets no details."""
        url = f"{self.running.url}/readyz"
        found: dict[str, Any] = httpx.get(url, headers=self.headers("erin")).json()
        return found

    @contextmanager
    def events(self, user: str) -> Iterator[Stream]:
        """Read a user's events in a thread, from now on."""
        stream = Stream()
        with self.client(user) as client, client.stream("GET", "/v1/events", timeout=600) as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            assert next(lines).startswith("retry")

            def read() -> None:
                try:
                    for line in lines:
                        if line.startswith("data: "):
                            stream.events.append(json.loads(line[6:]))
                except httpx.HTTPError:
                    return  # closed by the test

            Thread(target=read, daemon=True).start()
            yield stream

    def audit(self, *options: object) -> list[dict[str, Any]]:
        """Return the lines of `forewarn audit`, oldest first."""
        return [json.loads(line) for line in self.site.run("audit", "-n", 0, "--json", *options).splitlines()]

    def wait_job(self, user: str, job: object, **fields: Any) -> dict[str, Any]:
        """Wait until the list of jobs shows a job with these fields."""
        end = time.monotonic() + SOON
        while True:
            listed = self.get(user, f"/v1/jobs?job_id={job}")["jobs"]
            if listed and all(listed[0][name] == value for name, value in fields.items()):
                return dict(listed[0])
            assert time.monotonic() < end, (job, fields, listed)
            time.sleep(0.1)


@contextmanager
def lab_service(lab: Lab, folder: Path, registry: Path, **settings: Any) -> Iterator[LabService]:
    """A service beside a lab with a history, on an empty home with a copy of an empty registry.

    At its end it must stop in good order, and its log must be without tracebacks and tokens.
    """
    home = folder / "home"
    (home / "models").mkdir(parents=True)
    (home / "models" / registry.name).write_bytes(registry.read_bytes())
    load_jobs(lab, 1500, days=14)
    lab.sql(
        "UPDATE lab_job_table SET state = 5, exit_code = 256 "
        f"WHERE id_job > {FIRST_JOB} AND job_name = 'fft';"
    )
    service = start_lab_service(Site(lab, home), folder, **settings)
    try:
        wait_until(lambda: "up to date" in service.running.text, 180, "its history is read", every=0.2)
        yield service
    finally:
        code = service.running.stop()
        delete_jobs(lab)
    text = service.running.text
    assert code == 0
    assert "Traceback" not in text
    assert not [token for token in service.tokens.values() if token in text]


def train_model(service: LabService) -> str:
    """Train a model beside a service and have it serve; return its name."""
    service.site.run("train", "--family", "online", "--json")
    service.site.run("models", "promote", "lab.submit.generic", "1")
    return "lab.submit.generic"


def start_lab_service(site: Site, folder: Path, **settings: Any) -> LabService:
    """Start a service that collects with a token of root from a file, and knows callers by theirs."""
    token = folder / "service.jwt"
    token.write_text(site.lab.token("root", 3600))
    token.chmod(0o600)
    variables = {
        "FOREWARN_SLURMRESTD": site.lab.rest_url,
        "FOREWARN_SLURM_TOKEN_FILE": str(token),
        "FOREWARN_CLUSTER": site.lab.settings.cluster,
    }
    given = {"access__slurm_tokens": "slurmrestd", **settings}
    running = start_service(site.home, folder / "service.log", environment=variables, **given)
    return LabService(site, running)
