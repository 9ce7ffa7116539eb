"""Forewarn as it is installed from the wheel: on this machine, or in a Debian tree with a newer Python."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

ENTER = Path(__file__).parent / "enter_tree.sh"
# Not the environment of the tests: no PYTHONPATH, and no FOREWARN_ setting.
PLAIN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
# What the host's pip heeds beside its own settings.
NETWORK = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class Environment(ABC):
    """A virtual environment, and the folder outside the repository in which its commands run."""

    folder: Path
    inside: Path
    """The same folder, as the environment sees it; the virtual environment is `venv` in it."""

    @abstractmethod
    def install(self, requirement: str) -> None:
        """Install a requirement, with all that it requires, in the versions of the lock."""

    @abstractmethod
    def execute(
        self, command: Sequence[str], settings: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, with these environment variables only."""

    def run(
        self, program: str, *arguments: str, exit_codes: Collection[int] = (0,)
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the virtual environment; its exit code must be one of these."""
        settings = PLAIN | {"HOME": str(self.inside), "FOREWARN_HOME": str(self.inside / "home")}
        result = self.execute([str(self.inside / "venv/bin" / program), *arguments], settings)
        ended = f"`{program} {' '.join(arguments)}` ended with {result.returncode}"
        assert result.returncode in exit_codes, f"{ended}: {result.stdout}{result.stderr}"
        return result

    def write(self, name: str, text: str) -> None:
        """Write a file into the folder."""
        (self.folder / name).write_text(text)


class Here(Environment):
    """A virtual environment of the Python that runs the tests."""

    def __init__(self, folder: Path, constraints: Path) -> None:
        self.folder = self.inside = folder
        self.constraints = constraints
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)

    def install(self, requirement: str) -> None:
        """Install by the pip of the tests: the new environment is left without one."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.inside / "venv/bin/python")]
        command = [*pip, *install_arguments(requirement, self.constraints)]
        # With a PYTHONPATH pip would find the repository, and take Forewarn for installed already.
        settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        result = self.execute(command, settings)
        assert result.returncode == 0, result.stdout + result.stderr

    def execute(
        self, command: Sequence[str], settings: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this machine."""
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.inside, env=settings
        )


class Tree(Environment):
    """A virtual environment of the Python of a Debian tree, which itself stays as it is."""

    inside = Path("/srv")

    def __init__(self, tree: Path, folder: Path, constraints: Path) -> None:
        self.tree, self.folder, self.constraints = tree, folder, constraints
        self.pip_settings, self.shown = settings_of_pip(self.inside / "machine")
        for path in self.shown:  # what they are mounted on
            target = Path(f"{folder}/machine{path}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir(exist_ok=True) if path.is_dir() else target.touch()
        (folder / "constraints.txt").write_bytes(constraints.read_bytes())
        result = self.execute(["/usr/bin/python3", "-m", "venv", "/srv/venv"], PLAIN)
        assert result.returncode == 0, result.stdout + result.stderr

    def install(self, requirement: str) -> None:
        """Install by the tree's own pip, with the settings of this machine's."""
        arguments = install_arguments(requirement, self.inside / "constraints.txt")
        command = ["/srv/venv/bin/python", "-m", "pip", *arguments]
        result = self.execute(command, PLAIN | {"HOME": "/srv"} | self.pip_settings)
        assert result.returncode == 0, result.stdout + result.stderr

    def execute(
        self, command: Sequence[str], settings: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in namespaces of its own, which end with it."""
        enter = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--",
        ]
        enter += ["bash", str(ENTER), str(self.tree), str(self.folder), *map(str, self.shown), "--"]
        return subprocess.run(
            [*enter, *command], capture_output=True, text=True, check=False, cwd="/", env=settings
        )


def install_arguments(requirement: str, constraints: Path) -> list[str]:
    """Wheels only: what a user without a compiler gets. Files are compiled when they are imported."""
    options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-compile"]
    return ["install", *options, "--constraint", str(constraints), requirement]


def settings_of_pip(shown_at: Path) -> tuple[dict[str, str], list[Path]]:
    """Read how this machine's pip reaches its index.

    Returns
    -------
    The settings as environment variables, and the paths in them, which the tree has below `shown_at`.
    """
    pip = [sys.executable, "-m", "pip"]
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=True)
    cache = subprocess.run([*pip, "cache", "dir"], capture_output=True, text=True, check=False).stdout.strip()
    settings = {name: os.environ[name] for name in (*NETWORK, *PROXIES) if name in os.environ}
    for line in listed.stdout.splitlines():  # of the environment last: they override those of files
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2].upper().replace("-", "_")
        settings[f"PIP_{name}"] = str(ast.literal_eval(value))
    if cache:
        Path(cache).mkdir(parents=True, exist_ok=True)
        settings["PIP_CACHE_DIR"] = cache
    words = {word for value in settings.values() for word in value.split()}
    shown = sorted(Path(word) for word in words if word.startswith("/") and Path(word).exists())
    for name, value in settings.items():
        seen = [f"{shown_at}{word}" if Path(word) in shown else word for word in value.split()]
        settings[name] = " ".join(seen)
    return settings, shown
