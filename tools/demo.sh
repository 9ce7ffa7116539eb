#!/bin/sh
# The whole story on a made-up cluster: history, a model, a script checked, advice followed, a failure explained.
# Called by `make demo`, which says where things are.
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

say 'A small cluster, simulated: people with habits and skill, wrong requests, sick nodes, outages.'
run simulate --scenario small --seed 7 --machine . -o jobs.parquet

say 'Two months later. What its Slurm has seen until now is read into the store.'
"$BIN/python" "$TOOLS/story.py" begin . > story.env
. ./story.env
run ingest parquet:before.parquet slurmrestd:nodes.json slurmrestd:partitions.json

say 'Who runs here, and how much of it is lost.'
run jobs --by user --limit 5

say 'Learn from it: a search over trees of four kinds, calibrated, with a threshold, judged on the last fifth.'
run train --trials 4

say "$STORY_USER is about to submit a job. It looks like many before it:"
cat job.sbatch

say 'Before sbatch: will it fail, why, and what to change?'
run check job.sbatch -u "$STORY_USER" --at "$STORY_SUBMIT" --diff --fix || [ $? -lt 3 ]  # its exit code is the verdict

say 'The simulator knows what will happen. The job as it was, and as advised:'
"$BIN/python" "$TOOLS/story.py" follow .

say "An earlier job of $STORY_USER failed. Why?"
run explain "$STORY_FAILED"

say 'Yours to explore, beginning with the report of the training, at the path that it gave: one HTML page.'
cat <<END
  export FOREWARN_HOME=$FOREWARN_HOME
  $BIN/forewarn models list
  $BIN/forewarn jobs --by week             the history itself; also --by partition, -s failed, …
  $BIN/forewarn health --all --at last     the nodes
  $BIN/forewarn train --phase start        the same at the moment when a job starts
  $BIN/forewarn ingest --help              read your own cluster's history: README.md has the sacct line
END
