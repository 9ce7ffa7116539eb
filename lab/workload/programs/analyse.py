"""Summarise a table with a package that is only there if the environment was set up: analyse.py TABLE."""

import sys
from pathlib import Path

import labstats

with Path(sys.argv[1]).open(encoding="utf-8") as table:
    numbers = [float(line) for line in table]
print(labstats.mean(numbers), labstats.spread(numbers))
