"""Erasure of a user from what notices, access and thresholds store, each written by its own code."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import AccessConfig, Config, NoticesConfig, ServeConfig
from forewarn.job.record import Job
from forewarn.operate.access.credentials import Proof
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.access.manage import create_token, revoke_token
from forewarn.operate.events.bus import BusReader
from forewarn.operate.events.event import EventType, job_event
from forewarn.operate.notices.notice import DIGEST
from forewarn.operate.notices.requests import NoticeRequests
from forewarn.operate.notices.rules import SiteChanges
from forewarn.operate.service.service import Service
from forewarn.operate.thresholds import set_threshold
from forewarn.operate.upkeep.erase import erase_user
from forewarn.operate.workspace import Workspace
from forewarn.store.people import ENTRY_TYPES, PeopleStore
from tests.operate.notices.samples import DAY, NOON, ended, warning
from tests.operate.notices.servers import Mailbox, smtp_server
from tests.operate.test_engine import write_jobs
from tests.operate.upkeep.homes import everything_readable, make_home

pytestmark = pytest.mark.slow

ZOE = Identity(user="zoe", method="session")
OPERATOR = Identity(user="ann", role=Role.OPERATOR)
OF_NOBODY = {"milestone"}  # the moment alone


def configured(tmp_path: Path, mail_server: str) -> Config:
    """A home with a model, where zoe is also one of the operators by address."""
    home = make_home(tmp_path / "home").home
    return Config(
        home=home,
        serve=ServeConfig(collect="never"),
        access=AccessConfig(service_tokens=True),
        notices=NoticesConfig(
            smtp=mail_server,
            smtp_tls="none",
            sender="forewarn@example.org",
            user_address="{user}@example.org",
            operators=("zoe@example.org", "ops@example.org"),
            budget=1,
            operator_budget=1,
            operator_hours=1.0,
            digest_hour=0,
            window=0,
        ),
    )


def wait_until(done: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def write_notices(service: Service) -> None:
    """Notices to and about zoe: single ones, held ones, digests, and one about ben."""
    notifier = service.notifier
    notifier.begin()
    names = ("secret_zoeplan", "secret_mesh", "secret_post")
    jobs = [ended(str(n), user="zoe", hours=20.0 - n, name=name) for n, name in enumerate(names)]
    risks = [warning(str(50 + n), user="zoe", hours=20.0 - n, name=name) for n, name in enumerate(names)]
    risks.append(warning("60", user="ben", hours=15.0, name="fit"))
    notifier.process(SiteChanges(assessments=risks, ended=jobs), NOON)
    notifier.process(SiteChanges(), NOON + DAY)


def act(service: Service) -> None:
    """Do whatever leaves an entry: as zoe, and as others about zoe."""
    config, people, access = service.config, service.people, service.access
    requests = NoticeRequests(config.notices, people)
    own = [one.notice.id for one in requests.notices(ZOE)]
    assert own
    requests.acknowledge(ZOE, own[0], at=NOON)
    as_operator = Identity(user="zoe", role=Role.OPERATOR)
    of_ben = next(one.notice.id for one in requests.notices(OPERATOR) if one.notice.user == "ben")
    requests.acknowledge(as_operator, of_ben, at=NOON)
    requests.silence(ZOE, at=NOON, rule="risk", reason="zoe is away")
    requests.silence(OPERATOR, at=NOON, user="zoe", reason="asked by zoe@example.org")
    lifted = requests.silence(OPERATOR, at=NOON, node="n1", reason="zoe runs tests there")
    requests.lift(as_operator, lifted.id, at=NOON)
    requests.subscribe(ZOE, ["failure"], at=NOON)
    create_token(config, "zoe-laptop", Role.USER, user="zoe")
    create_token(config, "zoe-old", Role.USER, user="zoe")
    revoke_token(config, "zoe-old")
    access.begin_session(Proof(user="zoe", method="service-token"), origin="10.9.8.7")
    access.audit(ZOE, "submit", "zoe_fit2", details={"options": {"comment": "for zoe_x"}}, address="10.9.8.7")
    access.audit(OPERATOR, "cancel", "12", details={"user": "zoe"}, address="10.1.1.1")
    people.add("feedback", {"user": "zoe", "text": "right"}, at=NOON)
    set_threshold(
        service.workspace,
        "alps.submit.generic",
        0.4,
        by=as_operator,
        reason="zoe says so",
        address="10.9.8.7",
    )


def entries(people: PeopleStore, entry_type: Any) -> list[object]:
    return [entry.value for entry in people.entries(entry_type)]


def test_every_kind_of_entry(tmp_path: Path) -> None:
    mailbox = Mailbox()
    with smtp_server(mailbox) as address:
        config = configured(tmp_path, address)
        service = Service(config)
        try:
            write_notices(service)
            act(service)
            for entry_type in set(ENTRY_TYPES) - OF_NOBODY:
                assert "zoe" in repr(entries(service.people, entry_type)), (
                    f"{entry_type}: the test is too weak"
                )
            digests = [one for one in service.people.entries("notice") if one.value["rule"] == DIGEST]
            assert {one.value["recipient"] for one in digests} >= {"user:zoe", "operator:ops@example.org"}
            with Workspace(config) as workspace:  # as the command does, beside the service
                result = erase_user(workspace, "zoe", by="root")
            left = everything_readable(config.home)
            for trace in (b"zoe", b"10.9.8.7", b"secret_"):
                assert trace not in left, trace
            people = service.people
            assert (
                entries(people, "subscription")
                == entries(people, "token")
                == entries(people, "feedback")
                == []
            )
            notices = people.entries("notice")
            assert {one.value["recipient"] for one in notices} == {"user:ben", "operator:ops@example.org"}
            assert {one.value["user"] for one in notices} == {"ben", None}, "others keep theirs"
            (of_ben,) = entries(people, "acknowledgement")
            assert of_ben == {"by": result.pseudonym}
            (lifted,) = people.entries("silence")
            assert (lifted.value["node"], lifted.value["lifted_by"]) == ("n1", result.pseudonym)
            (threshold,) = people.entries("threshold")
            assert (threshold.value["by"], threshold.value["value"]) == (result.pseudonym, 0.4)
            lines = {one.value["action"]: one.value for one in people.entries("audit")}
            assert lines["token.revoke"]["subject"] == result.pseudonym
            assert lines["submit"]["user"] == result.pseudonym
            assert lines["cancel"]["address"] == "10.1.1.1", "of whoever is not erased"
        finally:
            service.stop()


def test_a_running_service_drops_the_user(tmp_path: Path) -> None:
    mailbox = Mailbox()
    with smtp_server(mailbox) as address:
        config = configured(tmp_path, address)
        config = replace(config, notices=replace(config.notices, operators=("ops@example.org",)))
        with Service(config) as service:
            store, now = service.workspace.writing(), int(time.time())
            jobs = [
                Job(cluster="alps", job_id=str(n), submit=now - 60, user=user)
                for n, user in enumerate(("zoe", "ben"))
            ]
            write_jobs(store, *jobs)
            events = [job_event(EventType.JOB_PENDING, job) for job in jobs]
            early = service.bus.subscribe()
            service.bus.publish(events)
            service.notifier.on_ended([ended("1", user="zoe"), ended("2", user="ben")])
            wait_until(lambda: len(service.people.entries("notice")) >= 4)
            assert service.workspace.job_list().page(user="zoe").total
            with Workspace(config) as workspace:
                erase_user(workspace, "zoe", by="root")
            erased_at = time.monotonic()
            wait_until(lambda: in_ring(service) == {"ben"}, 3)
            assert time.monotonic() - erased_at < 3
            assert users_on(early) == {"ben"}
            assert service.workspace.job_list().page(user="zoe").total == 0
            assert service.workspace.job_list().page(user="ben").total == 1
            # What a round that had begun before still holds.
            service.bus.publish(events)
            service.notifier.on_ended(
                [
                    ended("3", user="zoe", hours=5.0, submit=now - 60),
                    ended("4", user="ben", hours=6.0, name="mesh"),
                ]
            )
            assert in_ring(service) == {"ben"}
            planner = service.notifier.planner
            wait_until(lambda: service.notifier.planner is not planner or "zoe" not in _users(service))
            wait_until(lambda: "4" in {one.value["job_id"] for one in service.people.entries("notice")})
            assert "zoe" not in _users(service)
        assert b"zoe" not in everything_readable(config.home)


def users_on(reader: BusReader) -> set[str | None]:
    """Read to the end, and return whose events there were."""
    found: set[str | None] = set()
    with reader:
        while reader.wait(0):
            found |= {event.user for event in reader.poll() if event.type is not EventType.GAP}
    return found


def in_ring(service: Service) -> set[str | None]:
    return {slot[1].user for slot in service.bus._slots if slot is not None and slot[1] is not None}


def _users(service: Service) -> set[str | None]:
    planner = service.notifier.planner
    return set() if planner is None else {one.user for one in planner.notices}
