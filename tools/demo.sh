#!/bin/sh
# The whole story on a simulated cluster: history, a model, a script checked, advice followed, a failure explained.
# Called by `make demo`, which sets BIN and DEMO.
set -eu
BIN=$(cd "${BIN:-.venv/bin}" && pwd) TOOLS=$(cd "$(dirname "$0")" && pwd) DEMO=${DEMO:-.work/demo}
rm -rf "$DEMO"
mkdir -p "$DEMO"
cd "$DEMO"
FOREWARN_HOME=$PWD/home
export FOREWARN_HOME
unset FOREWARN_CONFIG || true
[ -t 1 ] && bold=$(printf '\033[1m') plain=$(printf '\033[0m') || bold='' plain=''

say() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
run() { printf '$ forewarn %s\n' "$*"; "$BIN/forewarn" "$@"; }

say 'Simulate a small cluster: users with habits and skill, wrong requests, sick nodes, outages.'
run simulate --scenario small --seed 7 --machine . -o jobs.parquet

say 'Two months later: read the history of its Slurm into the store.'
"$BIN/python" "$TOOLS/story.py" begin . > story.env
. ./story.env
run ingest parquet:before.parquet slurmrestd:nodes.json slurmrestd:partitions.json

say 'Who runs jobs here, and how many of them fail?'
run jobs --by user --limit 5

say 'Train a model: search over four kinds of trees, calibrate, choose a threshold, evaluate on the last fifth.'
run train --trials 4

say "$STORY_USER is about to submit this job, similar to many before it:"
cat job.sbatch

say 'Before sbatch: will it fail, why, and what to change?'
run check job.sbatch -u "$STORY_USER" --at "$STORY_SUBMIT" --diff --fix || [ $? -lt 3 ]  # its exit code is the verdict

say 'The simulator knows how each would end, the job as written and as advised:'
"$BIN/python" "$TOOLS/story.py" follow .

say "Why did an earlier job of $STORY_USER fail?"
run explain "$STORY_FAILED"

say 'Next: open the training report (one HTML page, path above), or try:'
cat <<END
  export FOREWARN_HOME=$FOREWARN_HOME
  $BIN/forewarn models list
  $BIN/forewarn jobs --by week             the history; also --by partition, -s failed, …
  $BIN/forewarn health --all --at last     the nodes
  $BIN/forewarn train --phase start        a model for the moment when a job starts
  $BIN/forewarn ingest --help              read your own cluster's history (sacct command in README.md)
END
