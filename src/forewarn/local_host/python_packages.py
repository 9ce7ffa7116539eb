"""Find the packages that a Python interpreter can import, by reading its folders without starting it.

An environment belongs to the author of the script. Starting its interpreter, even isolated, would run code
that they put there: `.pth` files with `import` lines, `sitecustomize`. So the folders of `sys.path` are
derived as Python's `site` and `getpath` do, and where that is not certain the answer is None.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.files import head_of

_READ = 1 << 16  # bytes to read of a `.pth` file or a `pyvenv.cfg`: real ones have some hundred
_NAME = re.compile(r"python(3(?:\.\d+)?)?")
_FOLDER = re.compile(r"python(3\.\d+)")
_LIBRARIES = ("lib", "lib64")
# `import` lines of these add no folder and no finder of other packages: setuptools' shim of distutils,
# virtualenv's patch of it, and namespace packages, whose folders lie beside the file.
_KNOWN_IMPORTS = re.compile(r"distutils-precedence\.pth|_virtualenv\.pth|.+-nspkg\.pth")
_MODULE = re.compile(r"([A-Za-z_]\w*)(?:\.pyc?|\.so|\.(?:cpython|abi|pypy)[\w.-]*\.so)")


class _NotCertainError(Exception):
    """The folders are not sufficient to know what this Python finds."""


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The installation of a Python: its standard library and the folders of its packages."""

    standard: Path
    sites: tuple[Path, ...]
    has_user_site: bool
    version: str  # such as 3.11


def missing_packages(
    python: str, names: Sequence[str], environment: Mapping[str, str]
) -> Collection[str] | None:
    """Return the packages that this interpreter would not find; None where that is not certain."""
    try:
        found = _importable(Path(python), environment)
    except (_NotCertainError, OSError, ValueError):
        return None
    return {name for name in names if name not in sys.stdlib_module_names and name not in found}


def _importable(python: Path, environment: Mapping[str, str]) -> set[str]:
    if environment.get("PYTHONHOME"):
        raise _NotCertainError
    prefix = _prefix_of(python)
    sites = list(prefix.sites)
    if prefix.has_user_site and environment.get("HOME"):
        sites.append(Path(environment["HOME"], f".local/lib/python{prefix.version}/site-packages"))
    python_path = [Path(folder) for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    folders = [*python_path, prefix.standard, prefix.standard / "lib-dynload", *sites]
    for site in sites:
        folders += _added_by_pth(site)
    found = set[str]()
    for folder in dict.fromkeys(folders):
        found |= _modules_in(folder)
        if _changes_the_path(folder):
            raise _NotCertainError
    return found


def _prefix_of(python: Path) -> _Prefix:
    """Follow `getpath`: a `pyvenv.cfg` beside the program or above it, else what its links lead to."""
    if _NAME.fullmatch(python.name) is None or not python.exists():
        raise _NotCertainError
    for folder in (python.parent, python.parent.parent):
        settings = _venv_settings(folder / "pyvenv.cfg")
        if settings is not None:
            return _of_venv(folder, settings)
    return _of_installation(python.resolve())


def _of_venv(folder: Path, settings: Mapping[str, str]) -> _Prefix:
    version = re.match(r"3\.\d+", settings.get("version_info") or settings.get("version") or "")
    if version is None or not settings.get("home"):
        raise _NotCertainError
    base = _of_installation(Path(settings["home"], f"python{version[0]}").resolve())
    own = tuple(folder / library / f"python{version[0]}/site-packages" for library in _LIBRARIES)
    shares = settings.get("include-system-site-packages", "").lower() == "true"
    return _Prefix(base.standard, (*own, *base.sites) if shares else own, shares, version[0])


def _of_installation(program: Path) -> _Prefix:
    """Describe a Python that is no venv, with its links resolved. The library folder may show its version."""
    prefix = program.parent.parent
    libraries = {
        match[1]: folder
        for library in _LIBRARIES
        for folder in sorted((prefix / library).glob("python3.*"))
        if (match := _FOLDER.fullmatch(folder.name)) and (folder / "os.py").is_file()
    }
    named = _NAME.fullmatch(program.name)
    version = named[1] if named and named[1] and "." in named[1] else None
    if version is None and len(libraries) == 1:
        version = next(iter(libraries))
    if version is None or version not in libraries:
        raise _NotCertainError
    # Debian keeps packages in `dist-packages`, Fedora some of them in `lib64`, both some below /usr/local.
    roots = [prefix, *([prefix / "local"] if prefix == Path("/usr") else [])]
    names = (f"python{version}/site-packages", f"python{version}/dist-packages", "python3/dist-packages")
    sites = tuple(root / library / name for root in roots for library in _LIBRARIES for name in names)
    return _Prefix(libraries[version], sites, has_user_site=True, version=version)


def _venv_settings(path: Path) -> Mapping[str, str] | None:
    text = head_of(path, _READ)
    if text is None:
        return None
    pairs = (line.partition("=") for line in text.decode("utf-8", "replace").splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _added_by_pth(site: Path) -> Iterator[Path]:
    """Yield the folders that the `.pth` files of a folder name. Their `import` lines are not run."""
    if not site.is_dir():
        return
    for file in sorted(site.glob("*.pth")):
        text = head_of(file, _READ)
        if text is None or len(text) == _READ:
            raise _NotCertainError
        for line in text.decode("utf-8-sig", "replace").splitlines():
            if line.startswith(("import ", "import\t")):
                if _KNOWN_IMPORTS.fullmatch(file.name) is None:
                    raise _NotCertainError
            elif line.strip() and not line.startswith("#"):
                yield site / line.rstrip()


def _modules_in(folder: Path) -> set[str]:
    """Return the modules and packages in a folder; one without `__init__.py` is a namespace package."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return set()
    except NotADirectoryError:  # a zip archive or an egg
        raise _NotCertainError from None
    found = set[str]()
    for entry in entries:
        if match := _MODULE.fullmatch(entry.name):
            found.add(match[1])
        elif entry.name.isidentifier() and entry.is_dir():
            found.add(entry.name)
    return found


def _changes_the_path(folder: Path) -> bool:
    """Check whether a start file may add folders. Debian's only installs a crash reporter."""
    for name in ("sitecustomize.py", "usercustomize.py"):
        text = head_of(folder / name, _READ)
        if text is not None and (b"path" in text or b"site" in text):
            return True
    return (folder / "sitecustomize").is_dir() or (folder / "usercustomize").is_dir()
