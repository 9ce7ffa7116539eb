"""`forewarn store`: what the home holds; deletion by age, erasure of a user, backup, restore, upgrade."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import UsageError
from forewarn.formatting import byte_size, count, timestamp
from forewarn.serve.cli.commands.common import configured, home_option, json_option, opened
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.operate.upkeep.erase import ErasureResult
    from forewarn.operate.upkeep.info import StoreInfo
    from forewarn.operate.upkeep.prune import PruneResult
    from forewarn.operate.upkeep.upgrade import UpgradeResult

_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")


@click.group("store")
def command() -> None:
    """Show, prune, back up, restore and upgrade the store; erase a user.

    \b
    Examples:
      forewarn store info
      forewarn store prune --older-than 2years --dry-run
      forewarn store erase-user ann
      forewarn store backup /backup/forewarn.tar.gz
      forewarn store restore /backup/forewarn.tar.gz --home /srv/forewarn
      forewarn store upgrade
    """


@command.command()
@home_option
@json_option
def info(home: Path | None, as_json: bool) -> None:
    """Show what the home holds: records, assessments, sizes, versions, and how long they are kept."""
    from forewarn.operate.upkeep.info import store_info

    with opened(home=home) as workspace:
        found = store_info(workspace)
    if as_json:
        print_json(found.to_json())
    else:
        _print_info(found)


def _print_info(found: StoreInfo) -> None:
    days = {"history": found.history_kept, "assessments": found.assessments_kept, "audit": found.audit_kept}
    print_facts(
        str(found.home),
        {
            "versions": ", ".join(
                f"{part} {version.found}"
                + ("" if version.is_current else f" (this Forewarn: {version.needed})")
                for part, version in found.versions.items()
            ),
            "sizes": ", ".join(f"{part} {byte_size(size)}" for part, size in found.sizes.items() if size),
            "kept": ", ".join(
                f"{part} {'for ever' if kept is None else count(kept, 'day')}" for part, kept in days.items()
            ),
            "entries": ", ".join(_entries(number, name) for name, number in found.entries.items()) or None,
            "erased users": f"{found.erased_users:,}" if found.erased_users else None,
        },
    )
    rows = [
        (
            name,
            ", ".join(count(number, kind) for kind, number in one.records.items()),
            None if one.first_submit is None else timestamp(one.first_submit, "UTC"),
            None if one.last_submit is None else timestamp(one.last_submit, "UTC"),
            f"{one.assessments:,}",
        )
        for name, one in found.clusters.items()
    ]
    if rows:
        headings = ("cluster", "records", "first submit", "last submit", "assessments")
        print_table(headings, rows, right=("assessments",))
    if not all(version.is_current for version in found.versions.values()):
        note("the store is of an older version: `forewarn store upgrade` migrates it")


@command.command()
@click.option(
    "--older-than", metavar="AGE", help="Delete jobs that ended longer ago: 2years, 18months, 90days."
)
@_dry_run
@_yes
@home_option
@json_option
def prune(older_than: str | None, dry_run: bool, yes: bool, home: Path | None, as_json: bool) -> None:
    """Delete jobs that ended long ago, old assessments, audit lines, sessions and notices.

    Without --older-than the settings history_kept, assessments_kept and audit_kept decide. Pending and
    running jobs, and the current state of nodes and partitions, are kept. A collector or a service may
    run meanwhile; what they know is computed again from the jobs that are left.

    \b
    Examples:
      forewarn store prune --older-than 2years --dry-run
      forewarn store prune --yes                           as a daily cron job
    """
    from forewarn.operate.upkeep.ages import parse_age
    from forewarn.operate.upkeep.prune import prune as prune_store
    from forewarn.serve.cli.terminal.progress import progress

    kept = None if older_than is None else parse_age(older_than)
    with opened(home=home) as workspace:
        if not dry_run and not yes:
            planned = prune_store(workspace, history_kept=kept, dry_run=True)
            if not planned.is_empty:
                say(f"this deletes {_pruned(planned)}")
                _confirm("Delete it?")
        result = prune_store(workspace, history_kept=kept, dry_run=dry_run, watch=progress)
    if as_json:
        print_json(result.to_json())
    elif result.is_empty:
        say("nothing is old enough to be deleted")
    else:
        freed = "" if dry_run else f"; freed {byte_size(max(0, result.freed))}"
        say(f"{'would delete' if dry_run else 'deleted'} {_pruned(result)}{freed}")


_MANY = {"feedback": "feedback entries"}


def _entries(number: int, name: str) -> str:
    return count(
        number, {"audit": "audit line", "feedback": "feedback entry"}.get(name, name), _MANY.get(name)
    )


def _pruned(result: PruneResult) -> str:
    parts = [count(number, "job") + f" of {cluster}" for cluster, number in result.jobs.items() if number]
    others = (
        (result.programs, "program run", None),
        (result.observations, "observation of nodes and partitions", "observations of nodes and partitions"),
        (result.assessments, "assessment", None),
        (result.rejects, "rejects file", None),
    )
    parts += [count(number, one, many) for number, one, many in others if number]
    parts += [count(number, f"{name} entry", f"{name} entries") for name, number in result.entries.items()]
    return ", ".join(parts)


@command.command("erase-user")
@click.argument("user")
@click.option("--future", is_flag=True, help="Also refuse jobs that the user submits from now on.")
@_dry_run
@_yes
@home_option
@json_option
def erase_user(user: str, future: bool, dry_run: bool, yes: bool, home: Path | None, as_json: bool) -> None:
    """Erase a user: jobs, assessments, feedback, sessions, notices and tokens; not what Slurm has.

    Audit lines stay under a random name. Records from before the erasure do not come back when accounting
    or a file is read again. Backups and exported files are not changed: see docs/upkeep.md.

    \b
    Examples:
      forewarn store erase-user ann --dry-run
      forewarn store erase-user ann --yes
    """
    from forewarn.operate.upkeep.erase import erase_user as erase
    from forewarn.serve.cli.terminal.progress import progress

    with opened(home=home) as workspace:
        if not dry_run and not yes:
            planned = erase(workspace, user, dry_run=True)
            say(f"this deletes {count(sum(planned.jobs.values()), 'job')} of {user}, and cannot be undone")
            _confirm("Erase the user?")
        result = erase(workspace, user, future=future, dry_run=dry_run, by=getpass.getuser(), watch=progress)
    if as_json:
        print_json(result.to_json())
    else:
        _print_erasure(result)


def _print_erasure(result: ErasureResult) -> None:
    done = "would delete" if result.dry_run else "deleted"
    if result.found_nothing:
        say(f"no {'jobs and assessments' if result.dry_run else 'trace'} of that name in the store")
        return
    jobs = count(sum(result.jobs.values()), "job")
    say(f"{done} {jobs}, {count(result.programs, 'program run')}, {count(result.assessments, 'assessment')}")
    entries = result.entries
    if entries.deleted:
        kinds = "of sessions, tokens, notices and the like"
        say(f"deleted {count(entries.deleted, f'entry {kinds}', f'entries {kinds}')}")
    if entries.renamed:
        lines = count(entries.renamed, "audit line or threshold", "audit lines and thresholds")
        say(f"{lines} kept, with {result.pseudonym} in the place of the name")
    if result.rejected_rows:
        say(f"{done} {count(result.rejected_rows, 'row')} of rejects files")
    if result.jobs_of_others:
        note(f"{count(result.jobs_of_others, 'job')} of others mention the name (paths, accounts): they stay")
    for name in result.files:
        note(f"{name} mentions the name: it was not changed")
    if result.models and not result.dry_run:
        note(
            f"no name is in the models ({', '.join(result.models)}), but the numbers of these jobs are part "
            "of what was learnt: `forewarn train` replaces it"
        )


@command.command()
@click.argument("target", metavar="FILE|DIR", type=click.Path(path_type=Path))
@home_option
@json_option
def backup(target: Path, home: Path | None, as_json: bool) -> None:
    """Save store, people's entries, models and configuration into one file (.tar.gz).

    A collector or a service may run meanwhile. The file is private (mode 600), and holds everything that
    the store knows about users. Secrets of config.toml are left out.

    \b
    Examples:
      forewarn store backup /backup/forewarn-monday.tar.gz
      forewarn store backup /backup                         a new file, with the time in its name
    """
    from forewarn.operate.upkeep.backup import backup as save
    from forewarn.serve.cli.terminal.progress import progress

    result = save(configured(home=home), target, watch=progress)
    if as_json:
        print_json(result.to_json())
        return
    say(f"wrote {result.file} ({byte_size(result.size)}, {count(result.files, 'file')}, all hashes in it)")
    for text in result.notes:
        note(text)


@command.command()
@click.argument("archive", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Move the home that is there aside; nothing of it is deleted.")
@_yes
@home_option
@json_option
def restore(archive: Path, replace: bool, yes: bool, home: Path | None, as_json: bool) -> None:
    """Restore a backup into an empty home, or with --replace in the place of another.

    Every file is verified before the home gets its name. A config.toml that is in the home is kept.

    \b
    Examples:
      forewarn store restore /backup/forewarn.tar.gz
      forewarn store restore /backup/forewarn.tar.gz --home /srv/forewarn --replace
    """
    from forewarn.operate.upkeep.restore import restore as put_back
    from forewarn.serve.cli.terminal.progress import progress

    config = configured(home=home)
    if replace and not yes and config.home.exists():
        say(f"{config.home}: is moved aside, and the backup takes its place")
        _confirm("Go on?")
    result = put_back(config, archive, replace=replace, watch=progress)
    if as_json:
        print_json(result.to_json())
        return
    saved = timestamp(result.made_at, "UTC", name_zone=True)
    say(f"restored {result.home} as it was on {saved} ({count(result.files, 'file')}, all verified)")
    if result.moved_aside:
        say(f"the home that was there is {result.moved_aside} now; remove it when you need it no more")
    if result.tokens:
        say(
            f"all sessions are ended; it has {count(result.tokens, 'service token')}, and those revoked "
            "since the backup are valid again: look at `forewarn tokens list`"
        )


@command.command()
@click.option(
    "--backup", "target", metavar="FILE|DIR", type=click.Path(path_type=Path), help="Where to save it first."
)
@click.option("--no-backup", is_flag=True, help="Take no backup first.")
@_dry_run
@home_option
@json_option
def upgrade(target: Path | None, no_backup: bool, dry_run: bool, home: Path | None, as_json: bool) -> None:
    """Migrate a home of an older Forewarn: back it up, migrate it, check every record, list its models.

    Stop collector and service first. Running it again changes nothing and checks everything again.

    \b
    Examples:
      forewarn store upgrade --dry-run
      forewarn store upgrade --backup /backup
    """
    from forewarn.operate.upkeep.upgrade import upgrade as migrate
    from forewarn.serve.cli.terminal.progress import progress

    if no_backup and target:
        raise UsageError("--no-backup and --backup exclude each other")
    with opened(home=home) as workspace:
        result = migrate(
            workspace, dry_run=dry_run, backup_to=target, with_backup=not no_backup, watch=progress
        )
    if as_json:
        print_json(result.to_json())
    else:
        _print_upgrade(result, dry_run=dry_run)


def _print_upgrade(result: UpgradeResult, *, dry_run: bool) -> None:
    rows = [
        (part, str(version.found), str(version.needed), "no" if version.is_current else "yes")
        for part, version in result.before.items()
    ]
    print_table(("part", "version", "needed", "migration"), rows, right=("version", "needed"))
    if result.backup:
        say(f"saved {result.backup} first")
    if not dry_run:
        total = sum(result.records.values())
        done = "migrated and checked" if result.is_needed else "nothing to migrate; checked"
        say(f"{done} {count(total, 'record')} and {count(sum(result.assessments.values()), 'assessment')}")
    for model in result.models:
        if model.problem:
            note(f"{model.model} cannot serve: {model.problem}")
        else:
            say(f"{model.model} serves (trained by Forewarn {model.forewarn})")


def _confirm(question: str) -> None:
    """Ask a person; a program must say --yes."""
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to confirm it: add --yes, or look with --dry-run first")
    if not click.confirm(question, default=False, err=True):
        raise click.Abort
