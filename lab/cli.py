"""The command line: `python -m lab up`, and what one does with a lab that is up."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.cluster import Lab, start_lab
from lab.endings import run_every_ending
from lab.errors import LabError
from lab.places import default_state
from lab.synthetic import load_jobs
from lab.versions import DEFAULT, VERSIONS
from lab.workload.session import Session


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked; 0, or the exit code of the error that was printed."""
    options = _parser().parse_args(arguments)
    state: Path = options.state or default_state(options.slurm)
    try:
        code: int = options.action(options, state)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `python -m lab status | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _up(options: argparse.Namespace, state: Path) -> int:
    accounting = not options.without_accounting
    lab = start_lab(options.slurm, state, base_port=options.base_port, accounting=accounting, say=_say)
    print(_how_to_use(lab))
    return 0


def _down(_: argparse.Namespace, state: Path) -> int:
    Lab(state).down()
    _say("down; its jobs and history are kept for the next `up`: remove the folder to forget them")
    return 0


def _status(_: argparse.Namespace, state: Path) -> int:
    lab = Lab(state)
    print(f"Slurm {lab.settings.version} in {lab.state}: {'up' if lab.is_up else 'down'}")
    for name in lab.daemons.names:
        pid = lab.daemons.pid(name)
        print(f"  {name:12} {'not running' if pid is None else 'running'}   {lab.daemons.log(name)}")
    return 0 if all(lab.daemons.pid(name) for name in lab.daemons.names) else 1


def _run(options: argparse.Namespace, state: Path) -> int:
    enter = Lab(state).state / "bin/enter"
    os.execv(enter, [str(enter), options.user, *options.command])


def _token(options: argparse.Namespace, state: Path) -> int:
    print(Lab(state).token(options.user, options.lifetime))
    return 0


def _daemon(options: argparse.Namespace, state: Path) -> int:
    daemons = Lab(state).daemons
    {"start": daemons.start, "stop": daemons.stop, "kill": daemons.kill}[options.what](options.name)
    return 0


def _workload(options: argparse.Namespace, state: Path) -> int:
    session = Session(Lab(state), options.seed, jobs_per_minute=options.rate, say=_say)
    for ending, count in session.run(options.minutes).most_common():
        print(f"{count:>6} {ending}")
    return 0


def _load(options: argparse.Namespace, state: Path) -> int:
    load_jobs(Lab(state), options.jobs, options.days, seed=options.seed)
    _say(f"{options.jobs:,} ended jobs are in the accounting of the last {options.days} days")
    return 0


def _endings(_: argparse.Namespace, state: Path) -> int:
    endings = run_every_ending(Lab(state))
    for ending in endings:
        right = "" if ending.is_right else f"   EXPECTED {', '.join(ending.expected)}"
        print(f"{ending.job_id:>6} {ending.name:18} {', '.join(ending.found)}{right}")
    return 0 if all(ending.is_right for ending in endings) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--slurm", choices=VERSIONS, default=DEFAULT, help=f"version (default {DEFAULT})")
    common.add_argument("--state", type=Path, help="folder of this lab (default: one for each version)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", parents=[common], help="start a lab")
    up.add_argument("--base-port", type=int, help="first of its 500 ports (default: a block that is free)")
    up.add_argument("--without-accounting", action="store_true", help="no slurmdbd and no database")
    up.set_defaults(action=_up)

    down = commands.add_parser("down", parents=[common], help="end it; its history is kept")
    down.set_defaults(action=_down)

    status = commands.add_parser("status", parents=[common], help="what runs, and where the logs are")
    status.set_defaults(action=_status)

    run = commands.add_parser("run", parents=[common], help="run a command inside")
    run.add_argument("--user", default="root", help="as whom (default root)")
    run.add_argument("command", nargs="+", metavar="COMMAND")
    run.set_defaults(action=_run)

    token = commands.add_parser("token", parents=[common], help="print a JWT for a user")
    token.add_argument("user")
    token.add_argument("--lifetime", type=int, default=3600, metavar="SECONDS")
    token.set_defaults(action=_token)

    daemon = commands.add_parser("daemon", parents=[common], help="start, stop or kill one daemon")
    daemon.add_argument("what", choices=["start", "stop", "kill"])
    daemon.add_argument("name", help="slurmrestd, slurmctld, slurmdbd, mariadb, …")
    daemon.set_defaults(action=_daemon)

    workload = commands.add_parser("workload", parents=[common], help="grow a real history of every ending")
    workload.add_argument("--minutes", type=float, default=5)
    workload.add_argument("--seed", type=int, default=1)
    workload.add_argument("--rate", type=float, default=60, metavar="JOBS", help="a minute (default 60)")
    workload.set_defaults(action=_workload)

    load = commands.add_parser("load", parents=[common], help="put made-up ended jobs into accounting")
    load.add_argument("jobs", type=int, metavar="N")
    load.add_argument("--days", type=int, default=90, help="spread over so many days (default 90)")
    load.add_argument("--seed", type=int, default=42)
    load.set_defaults(action=_load)

    endings = commands.add_parser("endings", parents=[common], help="run one job of every ending (2 minutes)")
    endings.set_defaults(action=_endings)
    return parser


def _how_to_use(lab: Lab) -> str:
    here = f"python -m lab {{}} --slurm {lab.settings.version} --state {lab.state}"
    return f"""\
Slurm {lab.settings.version} is up. In your shell:

  . {lab.state}/env
  sinfo                                         # partitions main, short and low (preemptible)
  LAB_USER=alice sbatch --wrap 'sleep 10'       # also bob, carol, dave, erin; a script: sbatch < job.sh
  sacct -a -X; squeue; scontrol show job; sdiag

  TOKEN=$(scontrol token username=root lifespan=3600 | cut -d= -f2)
  curl -H "X-SLURM-USER-NAME: root" -H "X-SLURM-USER-TOKEN: $TOKEN" {lab.rest_url}/openapi
  REST over a unix socket: {lab.rest_socket}

Grow a history of every ending:  {here.format("workload")} --minutes 5
End it:                          {here.format("down")}"""


def _say(message: str) -> None:
    print(f"lab: {message}", file=sys.stderr, flush=True)
