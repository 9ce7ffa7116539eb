"""`forewarn serve` beside a real Slurm, with real tokens over real HTTP: one service for the whole module.

It begins with an empty home: it collects itself, a model is trained beside it, and serves without a restart.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from forewarn.config import Config
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token
from lab.cluster import Lab
from lab.endings import GROW
from lab.jobs import live_state, submit, wait_ended, wait_running, wait_until
from lab.synthetic import FIRST_JOB
from lab.tokens import sign_token
from tests.lab.conftest import one_version
from tests.lab.service import LabService, lab_service, start_lab_service, train_model
from tests.lab.site import Site
from tests.operate.notices.servers import Mailbox, smtp_server

USUAL = ("-J", "fft", "-t", "60", "-c", "4", "--mem=1000")  # as in the history
SCRIPT = "#!/bin/bash\n#SBATCH -J act -t 7 --mem=60 -c 2 -o /home/alice/act.%j\nsleep 60\n"


@pytest.fixture(scope="module")
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture(scope="module")
def service(
    lab: Lab, mailbox: Mailbox, registry_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabService]:
    """A service on a home of its own, whose model was trained while it ran."""
    with smtp_server(mailbox) as address:
        settings: dict[str, Any] = {
            "access__operators": ("erin",),
            "access__roles_refresh": 1,
            "access__service_tokens": "true",
            "url": "https://f.example.org",
            "notices__smtp": address,
            "notices__smtp_tls": "none",
            "notices__sender": "forewarn@example.org",
            "notices__user_address": "example.org",
            "notices__window": 0,
            "notices__minimum_hours": 0,
            "notices__budget": 1000,
        }
        folder = tmp_path_factory.mktemp("service")
        with lab_service(lab, folder, registry_template, **settings) as service:
            train_model(service)
            yield service


@pytest.fixture(scope="module")
def slow_ends(service: LabService) -> dict[str, int]:
    """Jobs that fail by themselves while other tests run: one needs more than a minute."""
    lab = service.lab
    return {
        "time_limit": submit(lab, "alice", "-J", "late", "-t", "1", "--mem=50", script="sleep 600"),
        "out_of_memory": submit(lab, "alice", "-J", "large", "-t", "5", "--mem=50", script=GROW),
        "exit": submit(lab, "alice", *USUAL, script="exit 1"),
    }


@one_version
def test_a_job_from_submit_to_end(service: LabService, slow_ends: dict[str, int]) -> None:
    lab = service.lab
    with service.events("alice") as hers, service.events("bob") as his, service.events("erin") as all_jobs:
        job = submit(lab, "alice", "--hold", *USUAL, script="sleep 2; exit 3")
        begun = time.monotonic()
        hers.wait(job, "job.pending", "assessment")
        appeared = time.monotonic() - begun
        service.wait_job("alice", job, state="PENDING")
        lab.run("alice", "scontrol", "release", str(job))
        hers.wait(job, "job.running")
        hers.wait(job, "job.ended")
        all_jobs.wait(job, "job.ended")
    assert appeared < 20
    assert hers.of(job) == all_jobs.of(job)
    assert hers.of(job).count("forewarn.assessment") >= 2, "at submit and at start"
    assert his.events == []
    (ended,) = [
        one["data"] for one in hers.events if one["type"].endswith("ended") and one["subject"] == str(job)
    ]
    assert (ended["outcome"], ended["exit_code"]) == ("failed", 3)
    page = service.get("alice", f"/v1/jobs/{job}")
    assert page["outcome"] == "failed"
    assert page["prediction"]["right"] is True, "all the user's jobs of this name failed"
    assert {one["model"] for one in page["assessments"]} == {"lab.submit.generic/1"}
    assert [one["changed"].get("state") for one in page["observations"]][:2] == ["PENDING", "RUNNING"]
    assert service.get("bob", f"/v1/jobs?job_id={job}")["jobs"] == []


@one_version
def test_health_and_metrics_are_true(service: LabService) -> None:
    ready = service.readiness()
    assert ready["ready"]
    assert all(part["works"] and part["detail"] is None for part in ready["parts"].values()), ready
    before = service.figures()
    wait_until(
        lambda: (
            service.figures()["forewarn_collector_rounds_total"] > before["forewarn_collector_rounds_total"]
        ),
        20,
        "another round",
    )
    figures = service.figures()
    assert figures["forewarn_collector_lag_seconds"] <= 5
    assert time.time() - figures["forewarn_last_update_timestamp_seconds"] < 20
    assert figures["forewarn_serving_models"] == 1


@one_version
def test_a_notice_is_quicker_than_the_interval(lab: Lab, site: Site, tmp_path: Path) -> None:
    hooks = tmp_path / "n.sock"
    service = start_lab_service(site, tmp_path, interval=600, datagram_socket=hooks)
    try:
        wait_until(lambda: "up to date" in service.running.text, 60, "the first round", every=0.2)
        job = submit(lab, "bob", "--hold", script="true")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hook:
            notice = {"version": 1, "cluster": "lab", "job_id": str(job), "event": "submitted"}
            hook.sendto(json.dumps(notice).encode(), str(hooks))
        service.wait_job("bob", job, state="PENDING")
    finally:
        lab.try_run("root", "scancel", str(job))
        assert service.running.stop() == 0


def test_submit_and_cancel_with_the_caller_s_token(service: LabService) -> None:
    lab = service.lab
    status, answer = service.post("alice", "/v1/jobs", script=SCRIPT, work_dir="/home/alice", name="act")
    assert status == 201, answer
    job = int(answer["job_id"])
    try:
        wait_running(lab, job)
        shown = lab.run("root", "scontrol", "-o", "show", "job", str(job))
        for part in ("UserId=alice(", "TimeLimit=00:07:00", "MinMemoryNode=60M", "NumCPUs=2", f"act.{job}"):
            assert part in shown
        service.wait_job("alice", job, state="RUNNING")
        for other in ("bob", "erin"):  # an operator of Forewarn has no more rights in Slurm
            status, answer = service.post(other, f"/v1/jobs/{job}/cancel")
            assert (status, answer["code"]) == (409, "refused_by_slurm")
        assert live_state(lab, job) == "RUNNING"
        status, answer = service.post("alice", f"/v1/jobs/{job}/cancel")
        assert status == 200, answer
        service.wait_job("alice", job, state="CANCELLED", outcome="cancelled")
    finally:
        lab.try_run("root", "scancel", str(job))
    lines = [
        line for line in service.audit() if str(job) in (line["subject"], line["details"].get("submitted"))
    ]
    assert [(line["action"], line["user"], line["result"][:7]) for line in lines] == [
        ("submit", "alice", "done"),
        ("cancel", "bob", "refused"),
        ("cancel", "erin", "refused"),
        ("cancel", "alice", "done"),
    ]
    assert {line["address"] for line in lines} == {"127.0.0.1"}


REFUSED = [
    (["-p", "nowhere"], 409, "Invalid partition"),
    (["--mem=900G"], 409, "not available"),
    (["-A", "nobody"], 409, "account"),
    (["--uid=root"], 400, "option --uid"),
    (["--begin=now+1hour", "--het-group=1"], 400, "option --begin"),
]


def test_what_slurm_refuses_is_a_problem_with_its_words(service: LabService) -> None:
    before = len(service.audit("--action", "submit"))
    for options, expected, words in REFUSED:
        status, answer = service.post("bob", "/v1/jobs", script=SCRIPT, work_dir="/tmp", options=options)
        assert (status, words in answer["detail"]) == (expected, True), answer
    for path in ("cancel", "resubmit"):
        for job in ("999999", "999999_3"):
            status, answer = service.post("bob", f"/v1/jobs/{job}/{path}")
            assert (status, answer["code"]) == (404, "unknown_job"), answer
    lines = service.audit("--action", "submit")[before:]
    assert [line["result"].startswith("refused: ") for line in lines] == [True] * len(REFUSED)


@one_version
def test_acting_needs_a_valid_token_of_slurm(service: LabService) -> None:
    now, key = int(time.time()), service.lab.jwt_key.read_bytes()
    expired = sign_token(key, "alice", issued=now - 700, expires=now - 100)
    own, _ = create_token(Config(home=service.site.home), f"nightly{now}", Role.USER, user="alice")
    body = {"script": SCRIPT, "work_dir": "/home/alice"}
    for headers, status, code in (
        ({}, 401, "unauthenticated"),
        ({"X-SLURM-USER-TOKEN": expired}, 401, "unauthenticated"),
        ({"Authorization": f"Bearer {own}"}, 403, "slurm_token_needed"),
        (
            {"Authorization": f"Bearer {own}", "X-SLURM-USER-TOKEN": service.token("bob")},
            403,
            "forbidden",
        ),
    ):
        answer = httpx.post(f"{service.running.url}/v1/jobs", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        assert not [token for token in headers.values() if token.removeprefix("Bearer ") in answer.text]
    assert service.audit("-u", "alice")[-1]["result"].startswith("refused: ")
    whole = str(service.audit())
    assert expired not in whole
    assert own not in whole
    assert not [token for token in service.tokens.values() if token in whole]


@one_version
def test_submitted_again_with_changes(service: LabService) -> None:
    """It requests what it did on the command line of sbatch, too, and is a job of its own."""
    lab = service.lab
    script = "env > /home/alice/env.$SLURM_JOB_ID; exit 1"
    first = submit(lab, "alice", "-p", "short", "-c", "2", "--mem=70", "-t", "6", script=script)
    array = submit(lab, "alice", "-t", "6", "--mem=70", script="#SBATCH --array=0-3 --hold\ntrue")
    wait_ended(lab, [first])
    changes = [{"option": "mem", "value": "90M"}, {"option": "time", "value": "8"}]
    status, answer = service.post("alice", f"/v1/jobs/{first}/resubmit", changes=changes)
    assert (status, answer["resubmits"]) == (201, str(first)), answer
    second = int(answer["job_id"])
    wait_ended(lab, [second])
    shown = lab.run("root", "scontrol", "-o", "show", "job", str(second))
    for part in ("Partition=short", "NumCPUs=2", "MinMemoryNode=90M", "TimeLimit=00:08:00", "Restarts=0"):
        assert part in shown
    assert "Restarts=0" in lab.run("root", "scontrol", "-o", "show", "job", str(first)), "never a requeue"
    assert "HOME=/home/alice\n" in (lab.state / f"home/alice/env.{second}").read_text(), "as after a login"
    status, answer = service.post("alice", f"/v1/jobs/{array}_2/resubmit")
    assert status == 201, answer
    task = answer["job_id"]
    assert lab.run("root", "squeue", "-h", "-r", "-o", "%i", "-j", task).split() == [f"{task}_2"]
    lab.run("root", "scancel", str(array), task)
    status, answer = service.post("bob", f"/v1/jobs/{first}/resubmit")
    assert (status, answer["code"]) == (404, "unknown_job"), "another user's"


def test_a_script_that_slurm_does_not_have_is_sent(service: LabService) -> None:
    lab = service.lab
    listed = service.get("alice", "/v1/jobs?user=alice&state=COMPLETED&order=submit&descending=false&limit=1")
    old = listed["jobs"][0]
    assert int(old["job_id"]) > FIRST_JOB
    status, answer = service.post("alice", f"/v1/jobs/{old['job_id']}/resubmit")
    assert (status, answer["code"]) == (409, "script_unknown"), answer
    status, answer = service.post(
        "alice", f"/v1/jobs/{old['job_id']}/resubmit", script="#!/bin/bash\n#SBATCH --hold\ntrue\n"
    )
    assert status == 201, answer
    shown = lab.run("root", "scontrol", "-o", "show", "job", answer["job_id"])
    lab.run("alice", "scancel", answer["job_id"])
    assert f"NumCPUs={old['cpus_asked']}" in shown, "as its command line said"
    assert f"WorkDir={service.get('alice', '/v1/jobs/' + old['job_id'])['job']['work_dir']}" in shown


@one_version
def test_who_sees_what(service: LabService) -> None:
    lab = service.lab
    jobs = {
        account: submit(lab, "bob", "--hold", "-A", account, script="true")
        for account in ("science", "teaching")
    }
    lab.run("root", "sacctmgr", "-i", "add", "coordinator", "account=teaching", "names=carol")
    try:
        for job in jobs.values():
            service.wait_job("bob", job)

        def seen(user: str) -> set[str]:
            asked = "&".join(f"job_id={job}" for job in jobs.values())
            return {job["account"] for job in service.get(user, f"/v1/jobs?{asked}")["jobs"]}

        wait_until(lambda: seen("carol") == {"teaching"}, 30, "the coordinator sees the account's jobs")
        assert seen("dave") == set()
        assert seen("erin") == {"science", "teaching"}
        with service.client("carol") as carol, service.client("dave") as dave:
            assert carol.get(f"/v1/jobs/{jobs['teaching']}").status_code == 200
            assert carol.get(f"/v1/jobs/{jobs['teaching']}/explanation").status_code == 200
            for path in ("", "/explanation", "/advice", "/retry"):
                assert carol.get(f"/v1/jobs/{jobs['science']}{path}").status_code == 404
                assert dave.get(f"/v1/jobs/{jobs['teaching']}{path}").status_code == 404
            assert carol.get("/auth/session").json()["role"] == "coordinator"
    finally:
        lab.run("root", "sacctmgr", "-i", "delete", "coordinator", "account=teaching", "names=carol")
        lab.run("root", "scancel", *map(str, jobs.values()))


@one_version
def test_a_failed_job_is_one_mail(service: LabService, mailbox: Mailbox) -> None:
    job = submit(service.lab, "dave", "-J", "mailed", "--mem=50", "-t", "5", script="sleep 2; exit 7")

    def subjects() -> list[str]:
        return [mail["Subject"] for mail in list(mailbox.mails) if mail["To"] == "dave@example.org"]

    wait_until(lambda: bool(subjects()), 60, "the mail")
    wait_ended(service.lab, [job])  # accounting adds what the controller did not say
    time.sleep(3)
    assert len(subjects()) == 1
    assert f"Job {job} (mailed) on lab failed" in subjects()[0]


def test_assessments_of_pending_and_running_jobs(service: LabService) -> None:
    """As in the history, where such jobs failed; and one unlike any other, about which nothing is claimed."""
    lab = service.lab
    pending = submit(lab, "alice", "--hold", *USUAL, script="true")
    running = submit(lab, "alice", *USUAL, script="sleep 300")
    unlike = submit(lab, "alice", "--hold", "-J", "unlike", "-t", "60", "--mem=50", script="true")
    jobs = {str(pending): "PENDING", str(running): "RUNNING", str(unlike): "PENDING"}

    def assessed(user: str) -> dict[str, dict[str, Any]]:
        """Return the newest assessments of these jobs, as a user gets them."""
        listed = service.get(user, "/v1/assessments")["assessments"]
        return {one["job_id"]: one for one in listed if one["job_id"] in jobs}

    try:
        wait_until(
            lambda: {job: one["state"] for job, one in assessed("alice").items()} == jobs,
            60,
            "all are assessed",
            every=0.2,
        )
        found = assessed("alice")
        assert found == assessed("erin"), "an operator"
        assert assessed("bob") == {}
        for job in (pending, running):
            assert found[str(job)]["failure"]["warns"], "all jobs of this name failed"
            assert found[str(job)]["route"]["model"] == "lab.submit.generic"
        assert found[str(unlike)]["verdict"] == "cannot_say"
        reasons = {reason["code"] for reason in found[str(unlike)]["route"]["passed_codes"]}
        assert reasons == {"no_job_alike", "nothing_like_it"}, "why no model answers"
    finally:
        lab.run("root", "scancel", *jobs)


@pytest.mark.parametrize("daemon", ["slurmctld", "slurmrestd", "slurmdbd"])
def test_the_service_outlives_slurm(service: LabService, daemon: str) -> None:
    lab = service.lab
    job = submit(lab, "alice", "--hold", script="true")
    service.wait_job("alice", job, state="PENDING")
    assert service.token("erin"), "slurmctld issues tokens"

    def trouble() -> str:
        return service.readiness()["parts"]["updates"]["detail"] or ""

    if daemon == "slurmctld":
        lab.daemons.stop(daemon)  # one that is killed may forget the newest jobs
    else:
        lab.daemons.kill(daemon)
    try:
        wait_until(lambda: daemon in trouble(), 150, f"it says that {daemon} is away", every=0.2)
        assert service.readiness()["ready"], "answers come from memory"
        begun = time.monotonic()
        for path in ("jobs", f"jobs/{job}", f"jobs/{job}/explanation", f"jobs/{job}/advice", "assessments"):
            service.get("alice", f"/v1/{path}")
        assert time.monotonic() - begun < 20
        assert service.wait_job("alice", job)["state"] == "PENDING", "as it was seen last"
        if daemon != "slurmdbd":
            assert service.figures()['forewarn_update_trouble{part="live_jobs"}'] == 1
            for path, body in (
                ("/v1/jobs", {"script": SCRIPT, "work_dir": "/home/alice"}),
                (f"/v1/jobs/{job}/cancel", {}),
                (f"/v1/jobs/{job}/resubmit", {}),
            ):
                status, answer = service.post("alice", path, **body)
                assert (status, answer["code"]) == (503, "slurm_away"), (path, answer)
    finally:
        lab.daemons.start(daemon)
    wait_until(lambda: not trouble(), 90, "it works again", every=0.2)
    status, answer = service.post("alice", f"/v1/jobs/{job}/cancel")
    assert status == 200, answer
    service.wait_job("alice", job, state="CANCELLED")


@one_version
def test_explained_as_on_the_command_line(service: LabService, slow_ends: dict[str, int]) -> None:
    lab = service.lab
    wait_ended(lab, slow_ends.values())
    for name, job in slow_ends.items():
        ended = service.wait_job(
            "alice", job, outcome={"exit": "failed", "time_limit": "timeout"}.get(name, name)
        )
        assert ended["end"]
        explanation = service.get("alice", f"/v1/jobs/{job}/explanation")
        assert explanation["family"] == (None if name == "exit" else name)
        retry = service.get("alice", f"/v1/jobs/{job}/retry")
        typed = service.site.json("explain", job)
        assert (explanation["cause"], explanation["confidence"]) == (typed["cause"], typed["confidence"])
        if name == "exit":
            continue
        assert retry["verdict"] == {"time_limit": "more_time", "out_of_memory": "more_memory"}[name]
        by_command = service.site.json("retry", job)
        for part in ("verdict", "memory", "time_limit", "options", "family"):
            assert retry[part] == by_command[part], part
    advice = service.get("alice", f"/v1/jobs/{slow_ends['exit']}/advice")
    assert (advice["state"], advice["failure"]["warns"]) == ("FAILED", True)
    status, checked = service.post(
        "alice", "/v1/check", script="#!/bin/sh\n#SBATCH -J fft -p main -t 60 -c 4\n./a\n"
    )
    assert (status, checked["user"], checked["verdict"]) == (200, "alice", "likely_to_fail")
    status, checked = service.post(
        "alice", "/v1/check", script="#!/bin/sh\n#SBATCH --mem=900G -p nowhere\n./a\n"
    )
    assert "no-such-partition" in str(checked["oddness"])
