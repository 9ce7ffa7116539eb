#!/bin/sh
# A cluster from nothing: simulate, ingest, look, learn. Called by `make demo`, which says where things are.
set -eu
BIN=${BIN:-.venv/bin} DEMO=${DEMO:-.work/demo}
rm -rf "$DEMO"
mkdir -p "$DEMO"
FOREWARN_HOME=$DEMO/home
export FOREWARN_HOME
unset FOREWARN_CONFIG || true
[ -t 1 ] && bold=$(printf '\033[1m') plain=$(printf '\033[0m') || bold='' plain=''

say() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
run() { printf '$ forewarn %s\n' "$*"; "$BIN/forewarn" "$@"; }

say 'A small cluster, simulated: people with habits and skill, wrong requests, sick nodes, outages.'
run simulate --scenario small --seed 7 --format sacct -o "$DEMO/history.txt"

say 'What it wrote is what sacct would print. Read it into the store.'
run ingest --timezone Europe/Berlin "sacct:$DEMO/history.txt"

say 'The same file again changes nothing.'
run ingest --timezone Europe/Berlin "sacct:$DEMO/history.txt"

say 'How it went, week by week.'
run jobs --by week

say 'The busiest people, and how much of it is lost.'
run jobs --by user --limit 10

say 'The last jobs that were lost, and what they had asked for.'
run jobs -s failed,timeout,oom,node_fail --limit 12 -o jobid,user,partition,jobname,reqmem,maxrss,elapsed,timelimit,outcome,exitcode

say 'What was knowable about each job when it was submitted, nothing later: the table that models learn from.'
run features --phase submit -o "$DEMO/submit.parquet"

say 'Learn from it: a search over trees of four kinds, calibrated, with a threshold, judged on the last fifth.'
run train --trials 8

say 'It is registered, and serves. Another one, the regression that the features carry along, challenges it.'
run train --family online
run models list

say 'Both on the same jobs, none of which they learnt from: is the challenger worth promoting?'
run evaluate small.submit.generic

say 'Yours to explore, beginning with the report of a training, at the path that it gave: one HTML page.'
cat <<END
  export FOREWARN_HOME=$FOREWARN_HOME
  $BIN/forewarn train --phase start    the same at the moment when a job starts
  $BIN/forewarn jobs --help
  $BIN/forewarn ingest --help      read your own cluster's history: README.md has the sacct line
END
