"""Write packaging/forewarn.toml: every setting as a comment, those of a typical site set.

    python tools/example_config.py [FILE]

`make man` runs it; a test compares its output with the file in the repository.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from forewarn.config import template

FILE = Path(__file__).resolve().parents[1] / "packaging/forewarn.toml"
# One machine with Forewarn, slurmrestd's socket and Slurm's commands: docs/serving-site.md.
SITE: Mapping[str, object] = {
    "slurmrestd": "unix:/run/slurmrestd/slurmrestd.sock",
    "slurm_user": "forewarn",
    "slurm_token_file": "/etc/forewarn/slurm.token",
    "serve.socket": "/run/forewarn/api.sock",
    "serve.socket_mode": "0666",
    "access.slurm_tokens": "slurmrestd",
    "access.unix_peers": True,
    "access.admins": ["root"],
}
HEAD = """\
# An example of /etc/forewarn/config.toml. Set is what one machine with Forewarn, slurmrestd and Slurm's
# commands needs (docs/serving-site.md); everything else is a comment with its default or an example.
# To open the service to other machines, set serve.listen, and a certificate or a proxy: docs/service.md,
# docs/access.md, docs/install-debian.md.
"""


def example() -> str:
    """Return the text of the file."""
    return HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    section = ""
    left = dict(SITE)
    for line in template().splitlines()[1:]:
        if found := re.fullmatch(r"# \[([\w.]+)\]", line):
            section = f"{found[1]}."
            is_used = any(name.startswith(section) for name in SITE)
            yield line.removeprefix("# ") if is_used else line
            continue
        named = re.match(r"# (\w+) = ", line)
        name = section + named[1] if named else ""
        if name in left:
            yield f"{name.rpartition('.')[2]} = {json.dumps(left.pop(name))}"
        else:
            yield line
    assert not left, f"not settings: {', '.join(left)}"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(example(), encoding="utf-8")
