"""Write the manual pages, one for each command, from what `forewarn COMMAND --help` is made of.

    python tools/man_pages.py [FOLDER]      default: man, beside this folder

`make man` runs it; a test compares its output with the pages in the repository.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from forewarn import __version__
from forewarn.serve.cli.main import COMMANDS, cli

FOLDER = Path(__file__).resolve().parents[1] / "man"
VERBATIM = "\b"  # click's mark of a paragraph that keeps its lines
ENVIRONMENT = (
    ("FOREWARN_HOME", "Folder of the store, the models and config.toml; default ~/.local/share/forewarn."),
    ("FOREWARN_CONFIG", "The config file, if it is not config.toml in the home."),
    (
        "FOREWARN_URL",
        "Address of a service that answers instead of the local store, where a command can ask one.",
    ),
    ("FOREWARN_DEBUG", "If set, errors come with a traceback."),
    ("FOREWARN_…", "Any setting, by its name: `forewarn config show` lists all."),
)


def pages() -> dict[str, str]:
    """Return all pages by the name of their file."""
    context = click.Context(cli, info_name="forewarn", **cli.context_settings)
    texts = {"forewarn.1": _page("forewarn", context, cli, "Predict failure of Slurm jobs, and say why")}
    for name, purpose in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context)
        texts[f"forewarn-{name}.1"] = _page(f"forewarn-{name}", below, command, purpose.rstrip("."))
    return texts


def _page(title: str, context: click.Context, command: click.Command, purpose: str) -> str:
    lines = [
        '.\\" Written by tools/man_pages.py from the command line itself: change that instead.',
        f'.TH "{title.upper()}" "1" "" "forewarn {__version__}" "Forewarn"',
        ".SH NAME",
        f"{_escape(title)} \\- {_escape(purpose)}",
        ".SH SYNOPSIS",
        *_synopsis(context, command),
        ".SH DESCRIPTION",
        *_text(command),
        *_options(context, command, ".SH OPTIONS"),
    ]
    if command is cli:
        lines += [".SH COMMANDS", *_listed()]
    elif isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            inner = click.Context(below, info_name=name, parent=context)
            lines += [f'.SS "{_escape(inner.command_path)}"', *_synopsis(inner, below), ".PP", *_text(below)]
            lines += _options(inner, below, ".PP\nOptions:")
    lines.append(".SH ENVIRONMENT")
    for variable, text in ENVIRONMENT:
        lines += [".TP", f"\\fB{_escape(variable)}\\fR", _styled(text)]
    lines += [".SH EXIT STATUS", "See docs/exit\\-codes.md: 0 is success, 2 a wrong option or setting."]
    others = ["forewarn", *(f"forewarn-{name}" for name in COMMANDS)]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escape(one)}\\fR(1)" for one in others if one != title)]
    return "\n".join(lines) + "\n"


def _synopsis(context: click.Context, command: click.Command) -> list[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    return [f"\\fB{_escape(context.command_path)}\\fR {_escape(pieces)}"]


def _text(command: click.Command) -> Iterator[str]:
    """Write the help text: paragraphs, and blocks whose lines stay as they are."""
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text)):
        lines = paragraph.splitlines()
        if number:
            yield ".PP"
        if lines and lines[0].strip() == VERBATIM:
            yield from (".nf", *(_line(line) for line in lines[1:]), ".fi")
        else:
            yield _styled(" ".join(line.strip() for line in lines))


def _options(context: click.Context, command: click.Command, heading: str) -> Iterator[str]:
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    shown = [record for record in records if record is not None]
    if shown:
        yield heading
    for names, text in shown:
        yield ".TP"
        yield f"\\fB{_escape(names)}\\fR"
        yield _styled(text.strip() or "See above.")


def _listed() -> Iterator[str]:
    for name, purpose in COMMANDS.items():
        yield from (".TP", f"\\fBforewarn\\-{_escape(name)}\\fR(1)", _styled(purpose))


def _styled(text: str) -> str:
    """Write running text: what is in backticks is bold.

    >>> _styled("see `forewarn check`")
    'see \\\\fBforewarn check\\\\fR'
    """
    return _line(re.sub(r"`([^`]+)`", "\x01\\1\x02", text)).replace("\x01", "\\fB").replace("\x02", "\\fR")


def _line(text: str) -> str:
    """Write one line; a dot or quote at its begin would be a request to roff."""
    escaped = _escape(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _escape(text: str) -> str:
    """Escape what roff reads: a plain hyphen would become a typographic one, which cannot be pasted."""
    for plain, roff in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(plain, roff)
    return "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in text)


def main() -> None:
    """Write the pages, and remove those of commands that are gone."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for old in folder.glob("forewarn*.1"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
