"""A Slurm without slurmdbd, collected from its controller alone: by REST, and by Slurm's commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.store.opening import open_store
from lab.cluster import Lab
from lab.jobs import submit, wait_until
from lab.versions import DEFAULT
from tests.lab.conftest import LABS, boot
from tests.lab.site import Site


@pytest.fixture(scope="module")
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab without accounting."""
    running = boot(request.param, tmp_path_factory.mktemp("bare"), accounting=False)
    yield running
    running.down()


@dataclass(frozen=True)
class CommandSite(Site):
    """Somebody without slurmrestd."""

    @cached_property
    def environment(self) -> dict[str, str]:
        inside = super().environment
        ours = {k: v for k, v in inside.items() if k not in ("FOREWARN_SLURMRESTD", "SLURM_JWT")}
        return ours | {"PATH": f"{self.lab.state / 'bin'}:{inside['PATH']}", "FOREWARN_SCHEDULER": "commands"}


@pytest.mark.parametrize("bare", [LABS[DEFAULT]], indirect=True, scope="module")
def test_a_slurm_without_accounting(bare: Lab, tmp_path: Path) -> None:
    sites = [Site(bare, tmp_path / "rest"), CommandSite(bare, tmp_path / "commands")]
    seen = submit(bare, "alice", script="exit 3")
    for site in sites:
        first = site.json("collect", "--once")
        assert first["troubles"] == {}
        assert "MinJobAge" in first["notes"][0]
    wait_until(lambda: _state(bare, seen) == "FAILED", 60, "the first job has ended")
    missed = submit(bare, "alice", script="sleep 600")
    for site in sites:
        site.run("collect", "--once")
    _remember_jobs_for(bare, 2)
    bare.run("root", "scancel", str(missed))
    wait_until(lambda: _state(bare, missed) is None, 120, "nobody knows the second job")
    # In the round after that in which it is missed.
    missing, marked = ([site.json("collect", "--once") for site in sites] for _ in range(2))
    for site, first, second in zip(sites, missing, marked, strict=True):
        assert (first["unknown_ends"], second["unknown_ends"]) == (0, 1)
        assert not any(done["notes"] or done["troubles"] for done in (first, second))
        with open_store(Config(home=site.home), read_only=True) as store:
            (jobs,) = store.scan(job_ids=[str(seen), str(missed)])
        assert dict(jobs[["job_id", "outcome"]].iter_rows()) == {str(seen): "failed", str(missed): "unknown"}


def _remember_jobs_for(lab: Lab, seconds: int) -> None:
    """After a job's end the controller has it for so long."""
    (lab.state / "etc/slurm/site.conf").write_text(f"MinJobAge={seconds}\n")
    lab.run("root", "scontrol", "reconfigure")


def _state(lab: Lab, job: int) -> str | None:
    """What the controller says of a job; None where it has it no longer."""
    lines = lab.run("root", "squeue", "-h", "-t", "all", "-o", "%i %T").splitlines()
    return dict(line.split() for line in lines).get(str(job))
