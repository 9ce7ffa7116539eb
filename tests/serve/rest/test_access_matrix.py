"""Every route × role × own and other's job, over real HTTP: a route without a row fails the first test.

Roles are those of service tokens, with which nobody acts on Slurm and no coordinator has accounts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from forewarn.config import Config
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token
from tests.serve.rest.access_rows import CALLERS, NOBODY, ROWS, Names, documented_routes, wrong_answers
from tests.serve.rest.running import RunningService, start_service

pytestmark = pytest.mark.slow
MODEL = "small.submit.generic"


@dataclass
class Site:
    """A service with authentication, and whose job is whose."""

    service: RunningService
    tokens: dict[str, str]
    user: str
    own: str
    other_user: str
    other: str

    def client(self, caller: str) -> httpx.Client:
        headers = {} if caller == NOBODY else {"Authorization": f"Bearer {self.tokens[caller]}"}
        return httpx.Client(base_url=self.service.url, timeout=60, headers=headers)

    def names(self, caller: str) -> Names:
        return Names(
            own=self.own,
            other=self.other,
            other_user=self.other_user,
            own_token=self.tokens.get(caller, "fwt_wrong"),
            model=MODEL,
        )


@pytest.fixture(scope="module")
def site(served_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("access")
    home = Path(shutil.copytree(served_home, folder / "home", symlinks=True))
    config = Config(home=home)
    admin, _ = create_token(config, "admin", Role.ADMIN)
    running = start_service(
        home,
        folder / "service.log",
        access__service_tokens=True,
        collect="never",
        rate_limit=1_000_000,
        environment={"FOREWARN_SLURMRESTD": "http://127.0.0.1:9"},  # nothing listens there: Slurm is away
    )
    try:
        listed = httpx.get(
            f"{running.url}/v1/jobs",
            params={"state": "failed", "limit": 1000, "order": "submit"},
            headers={"Authorization": f"Bearer {admin}"},
            timeout=60,
        ).json()["jobs"]
        own = listed[0]
        other = next(job for job in listed if job["user"] != own["user"] and job["account"] != own["account"])
        tokens = {"admin": admin}
        for role in (Role.USER, Role.COORDINATOR, Role.HELPER, Role.OPERATOR):
            user = own["user"] if role in (Role.USER, Role.COORDINATOR) else None
            tokens[role.value], _ = create_token(config, role.value, role, user=user)
        yield Site(running, tokens, own["user"], own["job_id"], other["user"], other["job_id"])
    finally:
        running.stop()


def test_every_route_has_a_row(site: Site) -> None:
    with site.client("admin") as client:
        assert {row.route for row in ROWS} == documented_routes(client)


@pytest.mark.parametrize("caller", CALLERS)
def test_what_each_role_may(site: Site, caller: str) -> None:
    with site.client(caller) as client:
        wrong = wrong_answers(client, caller, site.names(caller), slurm_token=False)
    assert not wrong, "\n".join(wrong)


def test_a_list_holds_only_what_the_caller_may_see(site: Site) -> None:
    for caller, users in (("user", {site.user}), ("helper", None)):
        with site.client(caller) as client:
            listed = client.get("/v1/jobs", params={"limit": 1000, "order": "submit"}).json()
            asked_for = client.get("/v1/jobs", params={"user": site.other_user}).json()
            searched = client.get("/v1/jobs", params={"search": site.other, "order": "submit"}).json()
        found = {job["user"] for job in listed["jobs"]}
        if users is None:
            assert len(found) > 5
            assert asked_for["total"]
        else:
            assert found == users
            assert (asked_for["total"], asked_for["jobs"]) == (0, [])
            assert site.other not in {job["job_id"] for job in searched["jobs"]}


@pytest.mark.parametrize("by", ["user", "account", "partition", "profile", "outcome", None])
def test_others_appear_only_as_counts_over_five_users(site: Site, by: str | None) -> None:
    with site.client("user") as client:
        params = {} if by is None else {"by": by}
        rows = client.get("/v1/trends", params=params).json()["rows"]
        narrowed = client.get("/v1/trends", params={**params, "user": site.other_user}).json()["rows"]
    with site.client("operator") as client:
        everyone = client.get("/v1/trends", params={"by": "user"}).json()["rows"]
        of_other = client.get("/v1/trends", params={"user": site.other_user}).json()["rows"]
    own = [row for row in rows if row["whose"] == "own"]
    others = [row for row in rows if row["whose"] == "others"]
    assert len(own) + len(others) == len(rows)
    assert sum(row["jobs"] for row in own) == sum(
        row["jobs"] for row in everyone if row["group"] == site.user
    )
    if by == "user":
        assert {row["group"] for row in own} == {site.user}
    assert others  # the cluster has enough users in its busy weeks
    assert min(row["users"] for row in others) >= 5
    assert sum(row["jobs"] for row in others) <= sum(
        row["jobs"] for row in everyone if row["group"] != site.user
    )
    assert by != "user" or {row["group"] for row in others} == {None}
    assert not narrowed  # one other user by name
    assert of_other  # who has jobs


def test_no_token_of_another_kind_is_believed(site: Site) -> None:
    tokens = ("fwt_", "fwt_" + "0" * 40, site.tokens["admin"][:-1], site.tokens["admin"] + "x", "null")
    with site.client(NOBODY) as client:
        for token in tokens:
            for headers in (
                {"Authorization": f"Bearer {token}"},
                {"X-SLURM-USER-TOKEN": token},
                {"Cookie": f"forewarn_session={token}"},
            ):
                answer = client.get("/v1/jobs", headers=headers)
                assert answer.status_code == 401, (token, headers)
                assert token in ("fwt_", "null") or token not in answer.text
