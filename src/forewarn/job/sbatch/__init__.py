"""A batch script read as sbatch reads it, before anybody submits it.

The way of a script: lines (`directives.py`) → words (`words.py`) → options (`getopt.py`, by the table in
`table.py`) → options of the environment and the command line over them (`options.py`) → a job
(`request.py`). Beside it the body, what the shell will run: `shell.py` splits it into commands, `body.py`
says what they are. `script.py` holds the whole. Nothing here reads a file or runs anything.

How sbatch does it was read in SchedMD's source (`src/sbatch/opt.c`: `next_line`, `get_argument`,
`_opt_batch_script`, `_opt_verify`; `src/common/slurm_opt.c`) and asked of sbatch 22.05, 24.11 and 26.05
themselves: `tests/lab/test_scripts.py`.
"""
