"""The machine that the check runs on: usually a login node, which sees the same file systems as jobs."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from forewarn.files import head_of
from forewarn.local_host.elf import loader_cache
from forewarn.local_host.python_packages import missing_packages
from forewarn.local_host.sbatch import slurm_version

_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
_RENAMES = (".modulerc", ".modulerc.lua", ".version")
CONDA_ROOTS = (
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba",
    ".conda",
    ".local/share/mamba",
)


class LocalHost:
    """The local machine, as a `Host` for the rules on scripts."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of the check."""
        return self._environment

    @property
    def architecture(self) -> str | None:
        """The processor architecture of this machine."""
        return platform.machine() or None

    @cached_property
    def slurm(self) -> tuple[int, int] | None:
        """The version of the local sbatch."""
        return slurm_version(self._environment)

    def same_file_system(self, path: str, other: str) -> bool | None:
        """Compare the device numbers of two paths, or of their nearest existing parents."""
        devices = [_device(Path(place)) for place in (path, other)]
        return None if None in devices else devices[0] == devices[1]

    def path_type(self, path: str) -> str | None:
        """Return ``file``, ``folder`` or ``nothing``; None in a folder that may not be entered."""
        try:
            mode = Path(path).stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "nothing"
        except (OSError, ValueError):
            return None
        return "folder" if stat.S_ISDIR(mode) else "file"

    def may_access(self, path: str, mode: str) -> bool | None:
        """Check permissions by access(2), which also knows read-only file systems."""
        try:
            return os.access(path, {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}[mode])
        except (OSError, ValueError):
            return None

    def head(self, path: str, length: int) -> bytes | None:
        """Read the first bytes of a regular file; reading a pipe would block."""
        return head_of(Path(path), length)

    def which(self, program: str) -> str | None:
        """Find a program on PATH."""
        return shutil.which(program, path=self._environment.get("PATH", os.defpath))

    def has_program(self, program: str) -> bool:
        """Check whether the shell finds a program."""
        return self.which(program) is not None

    def has_module(self, name: str, folders: Sequence[str]) -> bool | None:
        """Look for a module file below MODULEPATH; None without it, or where a file renames modules."""
        places = self._module_places(folders)
        if not places:
            return None
        for place in places:
            if (place / name).exists() or place.joinpath(f"{name}.lua").exists():
                return True
        family = name.partition("/")[0]
        named = (folder / other for p in places for folder in (p, p / family) for other in _RENAMES)
        return None if any(file.exists() for file in named) else False

    def similar_modules(self, name: str, folders: Sequence[str]) -> Collection[str]:
        """Return the versions of the same program where there are any, else all programs."""
        places = self._module_places(folders)
        family = name.partition("/")[0]
        versions = {f"{family}/{version}" for place in places for version in _names(place / family)}
        return versions or {program for place in places for program in _names(place)}

    def _module_places(self, folders: Sequence[str]) -> list[Path]:
        module_path = [folder for folder in self._environment.get("MODULEPATH", "").split(":") if folder]
        return [Path(folder) for folder in (*module_path, *folders)] if module_path else []

    def conda_environment(self, name: str) -> str | None:
        """Look for an environment in the folders that conda, mamba and micromamba use."""
        home, variables = self._environment.get("HOME", ""), self._environment
        roots = [f"{home}/{root}" for root in CONDA_ROOTS]
        roots += [
            variables[v] for v in ("MAMBA_ROOT_PREFIX", "CONDA_PREFIX", "CONDA_ROOT") if variables.get(v)
        ]
        if variables.get("CONDA_EXE"):
            roots.insert(0, str(Path(variables["CONDA_EXE"]).parent.parent))
        if name == "base":
            return next((root for root in roots if (Path(root) / "conda-meta").is_dir()), None)
        places = [
            p for v in ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS") for p in variables.get(v, "").split(":") if p
        ]
        places += [f"{root}/envs" for root in roots]
        found = next((f"{p}/{name}" for p in places if (Path(p) / name / "bin").is_dir()), None)
        own = next((root for root in roots if (Path(root) / "conda-meta").is_dir()), None)
        return found or (f"{own}/envs/{name}" if own else None)

    def missing_packages(self, python: str, names: Sequence[str]) -> Collection[str] | None:
        """Return missing packages by reading the interpreter's folders; nothing in them is run."""
        return missing_packages(python, names, self._environment)

    def has_library(self, name: str, folders: Sequence[str]) -> bool | None:
        """Look for a library where the loader does: `folders`, its cache, its standard folders."""
        if any(Path(folder, name).exists() for folder in (*folders, *_FOLDERS)):
            return True
        return None if self._cache is None else name in self._cache

    @cached_property
    def _cache(self) -> Collection[str] | None:
        try:
            return loader_cache(Path("/etc/ld.so.cache").read_bytes())
        except OSError:
            return None


def _device(path: Path) -> int | None:
    for place in (path, *path.parents):
        try:
            return place.stat().st_dev
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return None
    return None


def _names(folder: Path) -> list[str]:
    try:
        return [p.name.removesuffix(".lua") for p in folder.iterdir() if not p.name.startswith(".")]
    except OSError:
        return []
