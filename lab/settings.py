"""What a lab is made of: chosen at its first start, and the same after each `down` and `up`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.errors import LabError

HOST = "slurmlab"
"""The name of the machine inside the lab, where slurmctld and slurmdbd are."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices of one lab."""

    version: str
    tree: str
    base_port: int
    node_prefix: str
    """Differs between labs that are up at once: the cgroups of their jobs are named after the nodes."""
    nodes: int = 4
    cpus: int = 64
    memory_mb: int = 64000
    cluster: str = "lab"
    accounting: bool = True
    """Without it there is neither slurmdbd nor a database: the controller's memory is all that there is."""

    @property
    def node_names(self) -> list[str]:
        """The made-up nodes, each a slurmd of its own."""
        return [f"{self.node_prefix}{number}" for number in range(1, self.nodes + 1)]

    @property
    def controller_port(self) -> int:
        """Where slurmctld listens."""
        return self.base_port

    @property
    def accounting_port(self) -> int:
        """Where slurmdbd listens."""
        return self.base_port + 1

    @property
    def database_port(self) -> int:
        """Where MariaDB listens."""
        return self.base_port + 2

    @property
    def rest_port(self) -> int:
        """Where slurmrestd listens."""
        return self.base_port + 3

    @property
    def node_ports(self) -> dict[str, int]:
        """Where the slurmd of each node listens."""
        return {name: self.base_port + 10 + place for place, name in enumerate(self.node_names)}

    @property
    def srun_ports(self) -> tuple[int, int]:
        """First and last port that srun may listen on, for the output of its tasks."""
        return self.base_port + 100, self.base_port + 399

    @property
    def fixed_ports(self) -> list[int]:
        """Ports that must be free before a start."""
        rest = [self.controller_port, self.accounting_port, self.database_port, self.rest_port]
        return rest + list(self.node_ports.values())

    def save(self, state: Path) -> None:
        """Keep them with the lab's state."""
        (state / "lab.json").write_text(json.dumps(asdict(self), indent=2) + "\n")


def load_settings(state: Path) -> Settings | None:
    """Load the settings of the lab in this folder; None if there never was one."""
    file = state / "lab.json"
    try:
        return Settings(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise LabError(f"{file} is not what a lab wrote ({error}): remove {state} and start anew") from None
