"""Check a batch script in Open OnDemand: a form, and the output of `forewarn check`.

Passenger runs it as the user who is logged in, so it reads what that user may read, and asks the service with
that user's own Slurm token. Only Python's standard library (3.9 or newer). Settings are in forewarn.env
beside this file: FOREWARN_URL, and FOREWARN (the command, if not in /opt/forewarn).
"""

import html
import os
import shlex
import string
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import parse_qs

HERE = Path(__file__).resolve().parent
LARGEST = 1 << 20  # bytes of a form
TIMEOUT = 60  # seconds of a check
HEADERS = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
]


def application(environ, start_response):
    """Answer GET with the form, POST with the form and the check."""
    fields, answer, status = {}, "", "200 OK"
    if environ.get("REQUEST_METHOD") == "POST":
        if environ.get("HTTP_SEC_FETCH_SITE", "same-origin") not in ("same-origin", "none"):
            status, answer = "403 Forbidden", "Use the form of this page."
        else:
            fields = read_form(environ)
            answer = "The form is too large." if fields is None else check(fields)
    page = string.Template((HERE / "form.html").read_text(encoding="utf-8"))
    values = {name: html.escape((fields or {}).get(name, "")) for name in ("path", "script", "options")}
    shown = f"<h2>Answer</h2><pre>{html.escape(answer)}</pre>" if answer else ""
    start_response(status, HEADERS)
    return [page.substitute(values, answer=shown).encode("utf-8")]


def read_form(environ):
    """Return the fields of the form, or None if it is too large."""
    try:
        length = int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        length = 0
    if length > LARGEST:
        return None
    text = environ["wsgi.input"].read(length).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(text).items()}


def check(fields):
    """Run `forewarn check` on a file of the user, or on the script of the form."""
    try:
        options = shlex.split(fields.get("options", ""))
    except ValueError as error:
        return f"Options: {error}"
    if fields.get("path", "").strip():
        return run(Path(fields["path"].strip()).expanduser(), options)
    if not fields.get("script", "").strip():
        return "Name a file, or paste a script."
    with tempfile.TemporaryDirectory(prefix="forewarn-") as folder:
        file = Path(folder) / "job.sbatch"
        file.write_text(fields["script"].replace("\r\n", "\n"), encoding="utf-8")
        return run(file, options)


def run(file, options):
    """Return what the command prints."""
    settings = {**os.environ, **read_settings(), **slurm_token(), "NO_COLOR": "1", "COLUMNS": "100"}
    command = [settings.get("FOREWARN", "/opt/forewarn/bin/forewarn"), "check", str(file.absolute())]
    command += ["--", *options] if options else []
    try:
        done = subprocess.run(
            command,
            env=settings,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"forewarn check could not be run: {type(error).__name__}"
    return (done.stdout + done.stderr).strip()


def slurm_token():
    """Return the user's own token for ten minutes, where Slurm gives one here."""
    try:
        done = subprocess.run(
            ["scontrol", "token", "lifespan=600"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    name, _, token = done.stdout.strip().partition("=")
    return {"SLURM_JWT": token} if done.returncode == 0 and name == "SLURM_JWT" else {}


def read_settings():
    """Read forewarn.env: one NAME=value in a line."""
    try:
        lines = (HERE / "forewarn.env").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}
