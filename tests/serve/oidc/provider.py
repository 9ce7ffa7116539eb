"""A real OpenID Connect provider (npm's oidc-provider), started by tests.

Its packages are installed once into `.work/`, by the lock beside this file. Where Node is missing, root gets
it from Debian; otherwise the test fails and says what to install.
"""

from __future__ import annotations

import fcntl
import hashlib
import html
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from lab.needs import found, install

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parents[2] / ".work" / "oidc-provider"
CLIENT, SECRET, PROGRAM = "forewarn", "a secret with spaces & signs %", "program"
PROGRAM_REDIRECT = "http://127.0.0.1/program"


def install_provider() -> Path:
    """Return the folder of the installed provider; several test processes may ask at once."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_bytes()
    done = INSTALLED / f"done-{hashlib.sha256(lock).hexdigest()[:16]}"
    with (INSTALLED / "lock").open("w") as waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        for name in ("package.json", "package-lock.json", "server.mjs"):
            shutil.copy(HERE / name, INSTALLED / name)
        if not done.exists():
            require_node()
            command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            result = subprocess.run(command, cwd=INSTALLED, capture_output=True, text=True, check=False)
            assert result.returncode == 0, f"npm ci: {result.stderr}"
            done.touch()
    return INSTALLED


def require_node() -> None:
    """Install Debian's Node where there is none, or fail."""
    for command, package in (("node", "nodejs"), ("npm", "npm")):
        if found(command):
            continue
        message = f"the tests of OIDC need {command}: apt install {package}"
        assert os.geteuid() == 0, message
        assert found("apt-get"), message
        if install(package) is not None:  # a fresh image has no package lists yet
            subprocess.run(["apt-get", "-qq", "update"], check=True)
            reason = install(package)
            assert reason is None, f"{message}: {reason}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_provider(port: int, redirect: str) -> Iterator[str]:
    """Run the provider; yield its issuer."""
    folder = install_provider()
    process = subprocess.Popen(
        ["node", "server.mjs", str(port), redirect],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first.startswith("ready "):
            pytest.fail(f"the provider did not start: {first!r}")
        yield first.split()[1]
    finally:
        process.terminate()
        process.wait(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


def log_in(browser: httpx.Client, address: str, user: str) -> str:
    """Do what a person does at the provider: log in, consent; return the address it sends the browser to."""
    response = browser.get(address)
    for _ in range(12):
        if response.is_redirect:
            target = urljoin(str(response.url), response.headers["location"])
            if "code=" in target or "error=" in target:
                return target
            response = browser.get(target)
            continue
        form = re.search(r'<form[^>]*action="([^"]+)"', response.text)
        assert form is not None, response.text[:500]
        prompt = re.search(r'name="prompt" value="(\w+)"', response.text)
        assert prompt is not None
        fields = {"prompt": prompt[1], "login": user, "password": "any"}
        response = browser.post(urljoin(str(response.url), html.unescape(form[1])), data=fields)
    raise AssertionError("the provider never sent the browser back")
