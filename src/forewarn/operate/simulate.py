"""Simulate a cluster whose failures have known causes, and write its history to files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.progress import ShowProgress, no_progress
from forewarn.sources.simulator import SimulationSummary
from forewarn.sources.simulator import simulate as simulate_to
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.writers.machine import write_machine

_ENDINGS = {"parquet": "parquet", "sacct": "txt", "slurmrestd": "json", "swf": "swf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """A simulated history."""

    summary: SimulationSummary  # cluster, jobs, outcomes, causes, and the paths of jobs and truth
    sources: tuple[str, ...]  # to ingest: the jobs, and nodes and partitions if they were written


def simulate(
    config: Config,
    *,
    scenario: str = "default",
    jobs: int | None = None,
    seed: int = 1,
    output: Path | None = None,
    form: str = "parquet",
    machine: Path | None = None,
    watch: ShowProgress = no_progress,
) -> SimulationResult:
    """Simulate a cluster's history.

    Parameters
    ----------
    scenario
        The name of one that ships with Forewarn, or a TOML file.
    output
        None: a file in the home's folder `simulated`.
    form
        The format of the jobs: parquet, sacct, slurmrestd or swf.
    machine
        A folder for nodes.json and partitions.json, as slurmrestd returns them.
    """
    if output is None:
        folder = config.home / "simulated"
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / f"{Path(scenario).stem}-{seed}.{_ENDINGS.get(form, form)}"
    elif not output.parent.is_dir():
        raise UsageError(f"--output: {output}: folder {output.parent} does not exist")
    with watch("simulating") as progress:
        summary = simulate_to(scenario, jobs, seed, output, form, progress)
    parts = write_machine(load_scenario(scenario), machine) if machine else ()
    sources = (f"{form}:{summary.path}", *(f"slurmrestd:{part}" for part in parts))
    return SimulationResult(summary=summary, sources=sources)
