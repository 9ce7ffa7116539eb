"""Checks of who may read and write the home and the files that hold secrets."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from forewarn.config import Config
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sharing import is_shared

_OWN_FILES = ("forewarn.db", "people.db", "erasure.key")


def permissions(config: Config, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Check the owner of the home, its databases, and every configured file with a secret."""
    findings = [*_home(config.home), *_secrets(config), *_config_file(config, environ)]
    yield from findings
    if not findings:
        yield DoctorFinding(
            "permissions", Severity.FINE, "files with secrets are readable by their owner only"
        )


def _home(home: Path) -> Iterator[DoctorFinding]:
    try:
        owner = home.stat().st_uid
    except OSError:
        return  # there is none yet, or `store` reports why not
    if owner != os.geteuid():
        name = _user_name(owner)
        message = (
            f"{home}: belongs to {name}; what another user writes there {name}'s service cannot read: run "
            f"Forewarn as {name}, for example `runuser -u {name} -- forewarn doctor`"
        )
        yield DoctorFinding("permissions", Severity.WARNING, message)
    allowed = 0o640 if is_shared(home) else 0o600
    for name in _OWN_FILES:
        file = home / name
        # Of a shared home the group reads all but the secrets.
        mode = 0o600 if name == "erasure.key" else allowed
        if (found := _mode(file)) is not None and found & 0o777 & ~mode:
            message = f"{file}: others can read or write it (mode {found:o}): chmod {mode:o} {file}"
            yield DoctorFinding("permissions", Severity.PROBLEM, message)


def _secrets(config: Config) -> Iterator[DoctorFinding]:
    access, notices = config.access, config.notices
    files = {
        "access.oidc_client_secret_file": access.oidc_client_secret_file,
        "access.proxy_secret_file": access.proxy_secret_file,
        "access.slurm_key_file": access.slurm_key_file if access.slurm_tokens == "key" else None,
        "serve.tls_key": config.serve.tls_key,
        "notices.smtp_password_file": notices.smtp_password_file,
    }
    files |= {f"notices.webhooks {hook.name}": hook.url_file for hook in notices.webhooks}
    for setting, file in files.items():
        if file is None:
            continue
        try:
            about = file.stat()
            with file.open("rb"):
                pass
        except OSError as error:
            message = f"{setting}: {file}: {error.strerror}: create it, or let this user read it"
            yield DoctorFinding("permissions", Severity.PROBLEM, message)
            continue
        mode = stat.S_IMODE(about.st_mode)
        if not stat.S_ISREG(about.st_mode):
            yield DoctorFinding("permissions", Severity.PROBLEM, f"{setting}: {file}: is no file")
        elif mode & 0o027:  # a group that may read is a common way to let the service read root's files
            message = f"{setting}: {file}: others can read or change it (mode {mode:o}): chmod 600 {file}"
            yield DoctorFinding("permissions", Severity.PROBLEM, message)


def _config_file(config: Config, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    file = Path(environ.get("FOREWARN_CONFIG") or config.home / "config.toml").expanduser()
    mode = _mode(file)
    if mode is None:
        return
    has_secret = bool(
        config.slurm_token
        or config.notices.smtp_password
        or any(hook.url for hook in config.notices.webhooks)
    )
    if has_secret and mode & 0o077:
        message = f"{file}: holds a secret, and others can read it (mode {mode:o}): chmod 600 {file}"
        yield DoctorFinding("permissions", Severity.PROBLEM, message)
    elif mode & 0o022:
        message = f"{file}: others can change the configuration (mode {mode:o}): chmod go-w {file}"
        yield DoctorFinding("permissions", Severity.PROBLEM, message)


def _mode(file: Path) -> int | None:
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
