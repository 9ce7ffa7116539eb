"""One lab: a real Slurm cluster on this machine, brought up and down, and what one can ask of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lab.accounting import add_accounts, create_database
from lab.cgroups import busy_nodes, remove_cgroups
from lab.config_files import write_config
from lab.daemons import Daemons
from lab.errors import LabError
from lab.locks import locked
from lab.namespace import Namespace
from lab.needs import check_machine
from lab.nodes import wait_for_nodes
from lab.ports import answers, node_prefix, reserve_block
from lab.settings import Settings, load_settings
from lab.state_folder import create_runtime, create_state
from lab.trees import ensure_tree
from lab.versions import version_named

SAVED = "var/lib/slurm/slurmctld/assoc_usage"


def silent(message: str) -> None:
    """Ignore the progress of a start."""


class Lab:
    """The lab in one folder, up or not."""

    def __init__(self, state: Path) -> None:
        self.state = state.resolve()
        settings = load_settings(self.state)
        if settings is None:
            raise LabError(f"there is no lab in {self.state}: start one with `python -m lab up`")
        self.settings: Settings = settings
        self.inside = Namespace(self.state)
        self.daemons = Daemons(self.inside, settings)

    @property
    def is_up(self) -> bool:
        """Whether its namespaces are there; `daemons` tells of each daemon."""
        return self.inside.holder is not None

    @property
    def rest_url(self) -> str:
        """Where slurmrestd answers over TCP."""
        return f"http://127.0.0.1:{self.settings.rest_port}"

    @property
    def rest_socket(self) -> Path:
        """Where slurmrestd answers over a unix socket."""
        return self.state / "run/slurmrestd/slurmrestd.sock"

    @property
    def jwt_key(self) -> Path:
        """The key that tokens are signed with."""
        return self.state / "var/lib/slurm/jwt_hs256.key"

    def run(self, user: str, *command: str, text: str | None = None, timeout: float = 60) -> str:
        """Run a command inside as a user; what it printed, or a LabError with what it complained of."""
        return self.inside.run(user, command, text=text, timeout=timeout).stdout

    def try_run(self, user: str, *command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command inside that may fail."""
        return self.inside.run(user, command, text=text, check=False)

    def sql(self, statements: str, *, timeout: float = 600) -> str:
        """Have the accounting database execute statements; the rows, tab-separated, without a header."""
        command = ("mariadb", "--no-defaults", "--skip-column-names", "--batch")
        return self.run(
            "root",
            *command,
            "--socket=/run/mysqld/mysqld.sock",
            "slurm_acct_db",
            text=statements,
            timeout=timeout,
        )

    def token(self, user: str, lifetime: int = 3600) -> str:
        """Return a JWT of slurmctld for a user, valid for so many seconds."""
        output = self.run("root", "scontrol", "token", f"username={user}", f"lifespan={lifetime}")
        return output.strip().removeprefix("SLURM_JWT=")

    def down(self) -> None:
        """End every process of the lab, in good order as far as they follow; its state is kept."""
        with locked(self.state / "lock"):
            if self.is_up:
                # slurmctld first, to save its state; slurmdbd then has nothing more to take; MariaDB flushes.
                for name in self.daemons.names[::-1]:
                    if name not in ("slurmrestd", "slurmctld", "slurmdbd", "mariadb"):
                        continue
                    with suppress(LabError):  # one that hangs ends with all the rest
                        self.daemons.stop(name)
            self.inside.end()
            remove_cgroups(self.settings.node_names)


def start_lab(
    version: str,
    state: Path,
    *,
    base_port: int | None = None,
    dies_with_me: bool = False,
    accounting: bool = True,
    say: Callable[[str], None] = silent,
) -> Lab:
    """Bring a lab up in a folder, as a new one or with the state it had; builds what it needs first.

    Without `accounting` it has neither slurmdbd nor a database, as a small Slurm often has not.
    """
    check_machine()
    tree = ensure_tree(version_named(version), say)
    state = state.resolve()
    state.mkdir(parents=True, exist_ok=True)
    with locked(state / "lock"):
        earlier = load_settings(state)
        if earlier is not None and earlier.version != version:
            raise LabError(
                f"{state} holds a lab of Slurm {earlier.version}: use another --state for {version}"
            )
        if Namespace(state).holder is not None:
            raise LabError(f"the lab in {state} is up already: `. {state}/env` to use it")

        def settings_at(base: int) -> Settings:
            prefix = earlier.node_prefix if earlier is not None else node_prefix(base)
            return Settings(version, str(tree), base, prefix, accounting=accounting)

        if base_port is None and earlier is not None:
            base_port = earlier.base_port
        base, lock = reserve_block(base_port, lambda base: _obstacle(settings_at(base)))
        settings = settings_at(base)
        with lock:
            remove_cgroups(settings.node_names)
            create_state(state, tree)
            settings.save(state)
            lab = Lab(state)
            write_config(state, settings)
            create_runtime(state)
            lab.inside.start(tree, lock, dies_with_me=dies_with_me)
        try:
            _start_daemons(lab, say)
        except BaseException:
            lab.inside.end()
            raise
    return lab


def _obstacle(settings: Settings) -> str | None:
    """Return the reason why a lab with these settings cannot start, if there is one."""
    taken = [port for port in settings.fixed_ports if answers(port)]
    if taken:
        return f"port {taken[0]} is taken by another program"
    busy = busy_nodes(settings.node_names)
    if busy:
        return f"another lab has jobs on a node of the name {busy[0]}"
    return None


def _start_daemons(lab: Lab, say: Callable[[str], None]) -> None:
    say(f"starting Slurm {lab.settings.version} in {lab.state}")
    for name in lab.daemons.names:
        lab.daemons.start(name)
        if name == "mariadb":
            create_database(lab)
        if name == "slurmdbd":
            add_accounts(lab)
        if name == "slurmctld" and not (lab.state / SAVED).exists():
            # It saves its state every few minutes, and a 26.05 that is killed before that cannot start again:
            # a stop in good order saves it now.
            lab.daemons.stop(name)
            lab.daemons.start(name)
    wait_for_nodes(lab)
    (lab.state / "env").write_text(_env(lab))


def _env(lab: Lab) -> str:
    return f"""\
export LAB_STATE='{lab.state}'
export LAB_SLURM_VERSION={lab.settings.version}
export LAB_REST_URL={lab.rest_url}
export LAB_REST_SOCKET='{lab.rest_socket}'
case ":$PATH:" in *":$LAB_STATE/bin:"*) ;; *) export PATH="$LAB_STATE/bin:$PATH" ;; esac
"""
