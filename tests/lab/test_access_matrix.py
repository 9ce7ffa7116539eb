"""Every route × role × own and other's job, for real users of a real Slurm, with tokens of `scontrol token`.

Who is a coordinator, an operator and an admin stands in Slurm's accounting; who helps, in the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from lab.cluster import Lab
from lab.jobs import submit, wait_until
from tests.lab.forged import forged_tokens
from tests.lab.service import LabService, lab_service, train_model
from tests.serve.rest.access_rows import NOBODY, ROWS, Names, ask, documented_routes, wrong_answers

ROLES = {
    "alice": "user",
    "bob": "user",
    "carol": "coordinator",
    "erin": "helper",
    "dave": "operator",
    "root": "admin",
}
# The slurmrestd of 22.05 does not hand out scripts: the service says so and asks for it.
NO_SCRIPT = "post /v1/jobs/{own}/resubmit {}: 409 instead of 201"
COORDINATED = "teaching"  # carol's; all other jobs are in the account science


@dataclass
class Site:
    """A service beside a lab, and a model that serves."""

    service: LabService
    model: str

    def client(self, user: str) -> httpx.Client:
        headers = {} if user == NOBODY else {"Authorization": f"Bearer {self.service.token(user)}"}
        return httpx.Client(base_url=self.service.running.url, timeout=60, headers=headers)

    def names(self, user: str, *, account: str = "science") -> Names:
        """Submit a held job of a user, and one of another; wait until the service knows both."""
        owner = "alice" if user == NOBODY else user
        other = "bob" if owner != "bob" else "alice"
        jobs = {
            owner: submit(self.service.lab, owner, "--hold", "-A", "science", script="true"),
            other: submit(self.service.lab, other, "--hold", "-A", account, script="true"),
        }
        for one, job in jobs.items():
            self.service.wait_job(one, job, state="PENDING")
        return Names(
            own=str(jobs[owner]),
            other=str(jobs[other]),
            other_user=other,
            own_token="not a token" if user == NOBODY else self.service.token(user),
            model=self.model,
        )


@pytest.fixture(scope="module")
def site(lab: Lab, registry_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("access")
    settings = {
        "access__helpers": ("erin",),
        "access__slurm_admins": "true",
        "access__roles_refresh": 1,
        "rate_limit": 1_000_000,
    }
    lab.run("root", "sacctmgr", "-i", "add", "coordinator", f"account={COORDINATED}", "names=carol")
    lab.run("root", "sacctmgr", "-i", "modify", "user", "dave", "set", "adminlevel=Operator")
    try:
        with lab_service(lab, folder, registry_template, **settings) as service:
            model = train_model(service)
            for user, role in ROLES.items():
                wait_until(
                    lambda: service.get(user, "/auth/session")["role"] == role,  # noqa: B023
                    30,
                    f"{user} has the role {role}",
                )
            yield Site(service, model)
    finally:
        lab.run("root", "scancel", "--state=PENDING")
        lab.run("root", "sacctmgr", "-i", "modify", "user", "dave", "set", "adminlevel=None")
        lab.run("root", "sacctmgr", "-i", "delete", "coordinator", f"account={COORDINATED}", "names=carol")


def test_every_route_has_a_row(site: Site) -> None:
    with site.client("root") as client:
        assert {row.route for row in ROWS} == documented_routes(client)


@pytest.mark.parametrize("user", [NOBODY, *ROLES])
def test_what_each_user_may(site: Site, user: str) -> None:
    with site.client(user) as client:
        wrong = wrong_answers(client, ROLES.get(user, NOBODY), site.names(user), slurm_token=True)
    role = ROLES.get(user, NOBODY)
    lacks_script = site.service.lab.settings.version == "22.05" and role not in (NOBODY, "helper")
    assert wrong == ([NO_SCRIPT] if lacks_script else []), "\n".join(wrong)


def test_a_coordinator_and_a_job_of_the_account(site: Site) -> None:
    """It is seen as by a helper, and Slurm lets its coordinator cancel it."""
    names = site.names("carol", account=COORDINATED)
    rows = [row for row in ROWS if "{other}" in row.path]
    with site.client("carol") as client:
        found = {row.route: status for row, status in ask(client, rows, names)}
    expected = {row.route: row.status("helper", slurm_token=True) for row in rows}
    expected["post", "/v1/jobs/{}/cancel"] = 200
    assert found == expected


def test_a_list_holds_only_what_the_caller_may_see(site: Site) -> None:
    lab, service = site.service.lab, site.service
    jobs = {
        (user, account): submit(lab, user, "--hold", "-A", account, script="true")
        for user in ("alice", "bob")
        for account in ("science", COORDINATED)
    }
    for (user, _), job in jobs.items():
        service.wait_job(user, job)
    asked = "&".join(f"job_id={job}" for job in jobs.values())
    for user, seen in {
        "alice": {one for one in jobs if one[0] == "alice"},
        "bob": {one for one in jobs if one[0] == "bob"},
        "carol": {one for one in jobs if one[1] == COORDINATED},
        "erin": set(jobs),
        "dave": set(jobs),
        "root": set(jobs),
    }.items():
        listed = service.get(user, f"/v1/jobs?{asked}")["jobs"]
        assert {(job["user"], job["account"]) for job in listed} == seen, user


def test_forged_tokens_open_no_route(site: Site) -> None:
    """Whatever the route: 401, or 429 after many from one address."""
    own = site.names("alice")
    closed = [row for row in ROWS if row.status(NOBODY, slurm_token=True) == 401]
    for name, token in forged_tokens(site.service.lab).items():
        names = replace(own, own_token=token)
        for headers in ({"Authorization": f"Bearer {token}"}, {"X-SLURM-USER-TOKEN": token}):
            with httpx.Client(base_url=site.service.running.url, headers=headers, timeout=60) as client:
                for row, status in ask(client, closed, names):
                    assert status in (401, 429), f"{name}: {row.method} {row.path}"
        site.service.tokens[f"forged: {name}"] = token  # must not stand in the log either
    assert site.service.get("alice", "/auth/session")["user"] == "alice", "a valid token still counts"
