"""How work that may take long is told of while it is done: whoever shows it passes this in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

Working = Callable[[str], AbstractContextManager[object]]  # told what takes long while it is done
