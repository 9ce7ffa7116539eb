"""Many made-up jobs, written straight into the accounting database: a long history in seconds.

Only columns that every version has are written; the rest have defaults. slurmdbd reads the tables at each
question, so sacct and slurmrestd see the jobs at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.users import ACCOUNTS, PEOPLE

if TYPE_CHECKING:
    from lab.cluster import Lab

FIRST_JOB = 10_000_000
"""Their ids begin after it: far from those that slurmctld gives."""
MOST = 20_000_000

NO_VALUE = 4294967294  # NO_VAL of slurm.h: "not part of a heterogeneous job"
BATCH_STEP = -5

# Slurm's numbers of states. Shares as on clusters that publish theirs: most complete, one in six fails.
STATES = "CASE WHEN r < .78 THEN 3 WHEN r < .92 THEN 5 WHEN r < .95 THEN 6 WHEN r < .99 THEN 4 ELSE 11 END"

DELETION = """
DELETE steps FROM {cluster}_step_table AS steps JOIN {cluster}_job_table AS jobs USING (job_db_inx)
WHERE jobs.id_job > {first_job};
DELETE FROM {cluster}_job_table WHERE id_job > {first_job};
"""

# The database gives each row its key, as it does for slurmdbd: keys of our own would push those of real jobs
# into their range.
JOBS = """
SET SESSION sql_mode = '', autocommit = 0, unique_checks = 0, rand_seed1 = {seed}, rand_seed2 = 4711;
SET @last = UNIX_TIMESTAMP() - 2 * 86400, @span = {days} * 86400;
INSERT INTO {cluster}_job_table (
    id_job, mod_time, account, id_assoc, id_user, id_group, id_qos, id_resv, id_wckey,
    job_name, cpus_req, mem_req, tres_req, tres_alloc, timelimit, `partition`, priority, flags,
    het_job_id, het_job_offset, state_reason_prev, nodelist, nodes_alloc, node_inx,
    state, exit_code, derived_ec, time_submit, time_eligible, time_start, time_end, work_dir, submit_line)
SELECT
    {first_job} + seq, submitted + waited + ran, '{account}',
    ELT(1 + who, {associations}), {first_uid} + who, {first_uid} + who, 1, 0, 0,
    ELT(1 + seq % 7, 'train', 'align', 'relax', 'post', 'fft', 'qc', 'sim'), cpus, mem, tres, tres,
    minutes, 'main', 100 + seq % 1000, 20,
    0, {no_value}, 0, CONCAT('{prefix}', 1 + seq % {nodes}), 1, seq % {nodes},
    state, IF(state = 5, 256 * (1 + seq % 3), IF(state = 11, 125, 0)), 0,
    submitted, submitted, submitted + waited, submitted + waited + ran,
    CONCAT('/home/', ELT(1 + who, {people}), '/p', seq % 50),
    CONCAT('sbatch -c ', cpus, ' --mem=', mem, ' job', seq % 50, '.sh')
FROM (
    SELECT *, CONCAT('1=', cpus, ',2=', mem, ',4=1,5=', cpus) AS tres,
        IF(state = 6, minutes * 60 + 10, FLOOR(RAND() * minutes * 60)) AS ran
    FROM (
        SELECT seq, minutes, {states} AS state, FLOOR(@last - @span + seq * @span / {count}) AS submitted,
            FLOOR(-LN(RAND() + 1e-9) * 600) AS waited, FLOOR(RAND() * {persons}) AS who,
            POW(2, FLOOR(RAND() * 6)) AS cpus, 1000 * POW(2, FLOOR(RAND() * 5)) AS mem
        FROM (
            SELECT seq, RAND() AS r, ELT(1 + FLOOR(RAND() * 5), 10, 60, 240, 720, 1440) + 0 AS minutes
            FROM seq_1_to_{count}) AS drawn) AS asked) AS made;
COMMIT;
"""

STEPS = """
SET SESSION sql_mode = '', autocommit = 0, unique_checks = 0, rand_seed1 = {seed}, rand_seed2 = 815;
INSERT INTO {cluster}_step_table (
    job_db_inx, id_step, step_het_comp, step_name, state, exit_code, nodelist, nodes_alloc, node_inx,
    task_cnt, task_dist, time_start, time_end, user_sec, sys_sec,
    req_cpufreq_min, req_cpufreq, req_cpufreq_gov,
    tres_alloc, tres_usage_in_ave, tres_usage_in_max, tres_usage_in_max_nodeid, tres_usage_in_max_taskid,
    tres_usage_in_min, tres_usage_in_tot)
SELECT
    job_db_inx, {batch}, {no_value}, 'batch', state, exit_code, nodelist, 1, node_inx,
    1, 0, time_start, time_end, FLOOR(RAND() * (time_end - time_start)), 1, 0, 0, 0,
    tres_alloc, used, used, '1=0,2=0', '1=0,2=0', used, used
FROM (
    SELECT *, CONCAT('1=', FLOOR(1000 * RAND() * (time_end - time_start)),
        ',2=', FLOOR(1048576 * mem_req * RAND())) AS used
    FROM {cluster}_job_table WHERE id_job > {first_job}) AS jobs;
COMMIT;
"""


def load_jobs(lab: Lab, count: int, days: int, *, seed: int = 42) -> None:
    """Put so many ended jobs, one step each, into the days before yesterday, for those loaded before."""
    if not 0 < count <= MOST or days <= 0:
        raise LabError(f"between 1 and {MOST:,} jobs can be loaded, over one day or more")
    cluster = lab.settings.cluster
    associations = lab.sql(
        f"SELECT user, MIN(id_assoc) FROM {cluster}_assoc_table"
        f" WHERE acct = '{ACCOUNTS[0]}' AND user <> '' AND deleted = 0 GROUP BY user;"
    )
    association = dict(line.split("\t") for line in associations.splitlines())
    values = {
        "cluster": cluster,
        "count": count,
        "days": days,
        "seed": seed,
        "first_job": FIRST_JOB,
        "states": STATES,
        "account": ACCOUNTS[0],
        "associations": ", ".join(association[user.name] for user in PEOPLE),
        "people": ", ".join(f"'{user.name}'" for user in PEOPLE),
        "persons": len(PEOPLE),
        "first_uid": PEOPLE[0].uid,
        "prefix": lab.settings.node_prefix,
        "nodes": lab.settings.nodes,
        "no_value": NO_VALUE,
        "batch": BATCH_STEP,
    }
    for statements in (DELETION, JOBS, STEPS):
        lab.sql(statements.format_map(values), timeout=3600)


def delete_jobs(lab: Lab) -> None:
    """Delete all jobs that were loaded, and no other."""
    lab.sql(DELETION.format(cluster=lab.settings.cluster, first_job=FIRST_JOB), timeout=3600)
