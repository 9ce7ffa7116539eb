"""The lab's accounting: the database behind slurmdbd, the cluster, its accounts and its people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.users import ACCOUNTS, PEOPLE

if TYPE_CHECKING:
    from lab.cluster import Lab


def create_database(lab: Lab) -> None:
    """Make slurmdbd's database and its user, if they are not there."""
    password = (lab.state / "database.password").read_text()
    statements = f"""
        CREATE DATABASE IF NOT EXISTS slurm_acct_db;
        CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY '{password}';
        GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';
    """
    lab.run("root", "mariadb", "--no-defaults", "--socket=/run/mysqld/mysqld.sock", text=statements)


def add_accounts(lab: Lab) -> None:
    """Tell slurmdbd of the cluster, the accounts and the people, if it does not know them."""
    cluster = lab.settings.cluster
    if cluster in lab.run("root", "sacctmgr", "-nP", "show", "cluster", "format=cluster").split():
        return
    accounts, people = ",".join(ACCOUNTS), ",".join(user.name for user in PEOPLE)
    _manage(lab, "cluster", cluster)
    _manage(lab, "account", accounts, "Description=lab", "Organization=lab")
    _manage(lab, "user", people, f"Account={accounts}", f"DefaultAccount={ACCOUNTS[0]}")
    _manage(lab, "user", "root", f"Account={ACCOUNTS[0]}")


def _manage(lab: Lab, *what: str) -> None:
    lab.run("root", "sacctmgr", "-i", "add", *what)
