"""The lab is a real cluster in each version: nodes, endings, tokens, scripts, daemons, and its own end."""

from __future__ import annotations

import http.client
import json
import socket
import time
from pathlib import Path

import pytest

from lab.clocks import clock_offsets
from lab.cluster import Lab
from lab.endings import EXPECTED, Ending
from lab.errors import LabError
from lab.jobs import live_state, submit, wait_ended, wait_quiet, wait_until
from lab.nodes import node_states
from lab.ports import answers
from lab.synthetic import delete_jobs, load_jobs
from lab.tokens import sign_token
from tests.lab.conftest import boot

NEWEST_API = {"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.45"}


def test_the_nodes_are_idle(lab: Lab) -> None:
    wait_quiet(lab)  # jobs of earlier tests may still be on their way off the nodes
    assert len(node_states(lab)) == 4
    assert set(node_states(lab).values()) == {"idle"}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_ending(name: str, endings: dict[str, Ending]) -> None:
    assert endings[name].is_right, endings[name]


def test_scripts_are_in_accounting(lab: Lab) -> None:
    job = submit(lab, "bob", script="echo this is kept")
    wait_ended(lab, [job])
    wait_until(
        lambda: "echo this is kept" in lab.run("root", "sacct", "-B", "-j", str(job)),
        30,
        "the script is there",
    )


@pytest.mark.parametrize("way", ["tcp", "socket"])
def test_tokens_over(way: str, lab: Lab) -> None:
    assert get(lab, way, "ping", lab.token("alice", 60))[0] == 200
    status, body = get(lab, way, "jobs", lab.token("alice", 60))
    assert status == 200
    assert "jobs" in json.loads(body)


def test_the_clocks_agree(lab: Lab) -> None:
    offsets = clock_offsets(lab)
    assert set(offsets) == {"lab", "mariadb", "slurmctld"}
    assert all(abs(offset) < 5 for offset in offsets.values()), offsets


def test_a_token_in_the_shell_changes_nobody(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", lab.token("alice", 60))
    job = submit(lab, "bob", "--hold", script="true")
    assert "UserId=bob" in lab.run("root", "scontrol", "show", "job", str(job))
    lab.run("bob", "scancel", str(job))


def test_no_token_is_no_entry(lab: Lab) -> None:
    assert get(lab, "tcp", "ping", "")[0] == 401


def test_a_token_of_one_s_own_times(lab: Lab) -> None:
    key, now = lab.jwt_key.read_bytes(), int(time.time())
    good = sign_token(key, "alice", issued=now, expires=now + 60)
    old = sign_token(key, "alice", issued=now - 600, expires=now - 300)
    assert get(lab, "tcp", "jobs", good)[0] == 200
    assert get(lab, "tcp", "jobs", old)[0] != 200


@pytest.mark.parametrize("name", ["slurmrestd", "slurmctld", "slurmdbd", "mariadb"])
def test_a_daemon_goes_and_comes_back(name: str, lab: Lab) -> None:
    before = lab.daemons.pid(name)
    assert before is not None
    lab.daemons.kill(name)
    assert lab.daemons.pid(name) is None
    lab.daemons.start(name)
    assert lab.daemons.pid(name) not in (None, before)
    job = submit(lab, "carol", script="true")
    wait_ended(lab, [job])
    assert get(lab, "socket", "ping", lab.token("alice", 60))[0] == 200


def test_jobs_are_loaded_into_accounting(lab: Lab) -> None:
    load_jobs(lab, 1000, days=10)
    try:
        options = ("-a", "-n", "-P", "-S", "now-20days", "-o", "JobID,User,State,MaxRSS")
        rows = [line.split("|") for line in lab.run("root", "sacct", *options).splitlines()]
        loaded = [row for row in rows if row[0].startswith("1000")]
        assert sum("." not in row[0] for row in loaded) == 1000
        assert sum(row[0].endswith(".batch") and row[3] != "" for row in loaded) == 1000
        assert {row[1] for row in loaded} - {""} == {"alice", "bob", "carol", "dave", "erin"}
    finally:
        delete_jobs(lab)


def test_loading_and_deleting_leave_real_jobs_alone(lab: Lab) -> None:
    """A job that ran between two loads keeps its row and its steps, whatever key the database gave it."""
    load_jobs(lab, 100, days=2)
    try:
        job = submit(lab, "carol", script="true")
        wait_ended(lab, [job])
        load_jobs(lab, 200, days=2)
        loaded = "JOIN lab_job_table AS j USING (job_db_inx) WHERE j.id_job > 10000000;"
        found = [lab.sql(f"SELECT COUNT(*) FROM lab_{table}_table {loaded}") for table in ("job", "step")]
        assert [int(number) for number in found] == [200, 200]
    finally:
        delete_jobs(lab)
    rows = lab.run("root", "sacct", "-n", "-P", "-j", str(job), "-o", "JobID,State").splitlines()
    assert rows == [f"{job}|COMPLETED", f"{job}.batch|COMPLETED"]
    assert lab.sql("SELECT COUNT(*) FROM lab_job_table WHERE id_job > 10000000;").strip() == "0"


def test_it_listens_on_the_loopback_only(lab: Lab) -> None:
    addresses = listening(lab)
    assert addresses >= {("127.0.0.1", port) for port in lab.settings.fixed_ports}
    assert {address for address, _ in addresses} == {"127.0.0.1"}


def test_down_leaves_no_process(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = boot(lab.settings.version, tmp_path_factory.mktemp("other"))
    job = submit(other, "alice", script="sleep 600")
    processes = other.inside.processes()
    assert len(processes) > 8
    other.down()
    assert not other.is_up
    assert [pid for pid in processes if Path(f"/proc/{pid}").exists()] == []
    assert not any(answers(port) for port in other.settings.fixed_ports)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/slurm_{other.settings.node_names[0]}"))
    assert lab.is_up, "the other lab is left alone"

    again = boot(lab.settings.version, other.state)
    try:
        assert live_state(again, job) is not None
    finally:
        again.down()


def test_a_lab_is_up_once(lab: Lab) -> None:
    with pytest.raises(LabError, match="up already"):
        boot(lab.settings.version, lab.state)


def get(lab: Lab, way: str, what: str, token: str) -> tuple[int, str]:
    """The status and body of a GET, over TCP or the unix socket, with the token of alice."""
    connection = http.client.HTTPConnection("127.0.0.1", lab.settings.rest_port, timeout=30)
    if way == "socket":
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(lab.rest_socket))
    headers = {"X-SLURM-USER-NAME": "alice", "X-SLURM-USER-TOKEN": token} if token else {}
    connection.request("GET", f"/slurm/{NEWEST_API[lab.settings.version]}/{what}", headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def listening(lab: Lab) -> set[tuple[str, int]]:
    """Address and port of every TCP socket in state LISTEN (0A) that a process of the lab has."""
    inodes = set()
    for pid in lab.inside.processes():
        for file in Path(f"/proc/{pid}/fd").iterdir():
            target = str(file.readlink())
            if target.startswith("socket:["):
                inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                found.add((address_of(address), int(port, 16)))
    return found


def address_of(text: str) -> str:
    """An IPv4 address as the kernel prints it, in the machine's byte order; another as it is."""
    return socket.inet_ntoa(bytes.fromhex(text)[::-1]) if len(text) == 8 else text
