"""Keep more and more in memory, as an assembler of genomes does: assemble.py MEGABYTES SECONDS."""

import sys
import time

megabytes, seconds = int(sys.argv[1]), float(sys.argv[2])
kept = []
while len(kept) * 4 < megabytes:
    kept.append(bytearray(4 << 20))
    time.sleep(seconds * 4 / megabytes)
print("kept", len(kept) * 4, "MB")
