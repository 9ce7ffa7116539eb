"""How well the online regression alone predicts failure on real logs, against the last-outcome baselines.

    python bench/online.py ../shared/data/swf

Policy `papers`, the last 20 % of each log in order of submit, outcomes known at the end of the job. The
F1 is at the threshold that was best on the 20 % before; the last outcome is that of the user with this
request, else of the user. The regression needs no training run: this is what a
new cluster has from its first day.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from forewarn.features.batch import inputs_of
from forewarn.features.missing_fields import find_missing_fields, with_missing_field_treatments
from forewarn.features.table import feature_frames
from forewarn.job.outcomes import POLICIES
from forewarn.sources.base import open_source
from forewarn.store.base import ClusterFacts

LOGS = (
    "CTC-SP2-1996-3.1",
    "SDSC-SP2-1998-4.2",
    "LANL-CM5-1994-4.1",
    "LLNL-Thunder-2007-1.1",
    "SDSC-BLUE-2000-4.2",
)


def best_threshold(truth: NDArray[np.float64], score: NDArray[np.float64]) -> float:
    precision, recall, thresholds = precision_recall_curve(truth, score)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    return float(thresholds[np.argmax(f1[:-1])])


def f1(truth: NDArray[np.float64], alarm: NDArray[np.bool_]) -> float:
    return float(2 * (truth * alarm).sum() / (truth.sum() + alarm.sum()))


def main(folder: Path) -> None:
    print(f"{'log':<22} {'jobs':>8} {'ROC-AUC':>8} {'PR-AUC':>8} {'F1':>6} {'F1 of last outcome':>20}")
    for log in LOGS:
        source = open_source(f"swf:{folder / log}-cln.swf.gz")
        jobs = pl.concat(b.frame for b in source.batches())
        jobs = jobs.with_columns(known_at=pl.when(pl.col("outcome").is_not_null()).then("end"))
        facts = with_missing_field_treatments(ClusterFacts(source.timezone), find_missing_fields([jobs], log))
        inputs = inputs_of([{"submit": jobs, "now": jobs}], facts, POLICIES["papers"])
        table = pl.concat(feature_frames(inputs, "submit", "generic"))
        truth, place = inputs.results[:, 0], np.arange(jobs.height) / jobs.height
        judged = np.isfinite(truth)
        before, test = judged & (place >= 0.6) & (place < 0.8), judged & (place >= 0.8)
        online = table["online"].to_numpy()
        alarm = online >= best_threshold(truth[before], online[before])
        last = table.select(pl.coalesce("user_request_last", "user_last").fill_null(0)).to_series().to_numpy()
        roc, pr = roc_auc_score(truth[test], online[test]), average_precision_score(truth[test], online[test])
        ours, theirs = f1(truth[test], alarm[test]), f1(truth[test], last[test] == 1)
        print(f"{log:<22} {jobs.height:>8,} {roc:>8.4f} {pr:>8.4f} {ours:>6.3f} {theirs:>20.3f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
