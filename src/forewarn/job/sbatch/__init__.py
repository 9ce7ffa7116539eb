"""Reader of batch scripts, as sbatch reads them, before they are submitted.

A script passes through these modules: lines (`directives.py`) → words (`word_split.py`) → options
(`getopt.py`, by the table in `option_table.py`) → overridden by those of the environment and the command line
(`options.py`) → a job (`request.py`). The body, which the shell will run, is read separately: `shell.py`
splits it into commands, `body.py` classifies them. `script.py` holds the result. Nothing here reads a file or
runs anything.

The behaviour of sbatch is taken from SchedMD's source (`src/sbatch/opt.c`: `next_line`, `get_argument`,
`_opt_batch_script`, `_opt_verify`; `src/common/slurm_opt.c`) and checked against sbatch 22.05, 24.11 and
26.05 themselves in `tests/lab/test_scripts.py`.
"""
