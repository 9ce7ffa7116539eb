"""The files that Slurm reads, written for one lab at each start."""

from __future__ import annotations

from pathlib import Path
from string import Template

from lab.cgroups import can_limit_memory
from lab.settings import HOST, Settings
from lab.state_folder import write_private

TEMPLATES = Path(__file__).parent / "templates"

BY_KERNEL = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup"
BY_POLLING = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherParams=OverMemoryKill"

ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment,job_env,job_script"""

CGROUP = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainCores=no
"""


def write_config(state: Path, settings: Settings) -> None:
    """Write slurm.conf and what goes with it into the lab's /etc."""
    slurm = state / "etc/slurm"
    first_srun_port, last_srun_port = settings.srun_ports
    values = {
        "cluster": settings.cluster,
        "host": HOST,
        "controller_port": settings.controller_port,
        "accounting_port": settings.accounting_port,
        "database_port": settings.database_port,
        "first_srun_port": first_srun_port,
        "last_srun_port": last_srun_port,
        "accounting": _accounting(settings),
        "memory": BY_KERNEL if can_limit_memory() else BY_POLLING,
        "nodes": "\n".join(
            f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port}"
            f" CPUs={settings.cpus} RealMemory={settings.memory_mb} TmpDisk=1000 State=UNKNOWN"
            for name, port in settings.node_ports.items()
        ),
        "node_list": f"{settings.node_prefix}[1-{settings.nodes}]",
        "first_node": settings.node_names[0],
        "password": (state / "database.password").read_text(),
    }
    (slurm / "slurm.conf").write_text(_filled("slurm.conf", values))
    write_private(state, slurm / "slurmdbd.conf", _filled("slurmdbd.conf", values).encode(), "slurm")
    (slurm / "cgroup.conf").write_text(CGROUP if can_limit_memory() else _no_cgroup(settings))
    if not (slurm / "site.conf").exists():  # Slurm complains of an empty one
        (slurm / "site.conf").write_text(
            "# What a person adds to slurm.conf; kept. Then: scontrol reconfigure\n"
        )
    names = " ".join([HOST, *settings.node_names])
    (state / "etc/hosts").write_text(f"127.0.0.1 localhost {names}\n")


def _accounting(settings: Settings) -> str:
    if not settings.accounting:
        # Up to 23.02 it has a name for none.
        return "AccountingStorageType=accounting_storage/none" if settings.version < "23.11" else ""
    return ACCOUNTING.format(port=settings.accounting_port)


def _filled(template: str, values: dict[str, object]) -> str:
    return Template((TEMPLATES / template).read_text()).substitute(values)


def _no_cgroup(settings: Settings) -> str:
    """Newer versions look for cgroups on their own unless told not to; older ones do not know the word."""
    return "" if settings.version < "23.11" else "CgroupPlugin=disabled\n"
