"""Draw README's pictures: ``python docs/images/draw.py``.

One is that of an example of the gallery; the other has the stored results of
benchmarks/untuned.py.
"""

import runpy
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

mpl.use("agg")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OTHERS = ("scikit-learn NCA", "metric-learn LMNN", "nothing")
LEFT_OUT = ("InverseCovariance",)


def circles() -> None:
    """Draw points before and after."""
    example = runpy.run_path(str(ROOT / "examples/start/plot_circles.py"))
    example["fig"].savefig(HERE / "circles.png", dpi=110)


def error_against_seconds() -> None:
    """Draw mean errors and CPU times of all methods on the runs that all of them have."""
    sys.path.append(str(ROOT / "benchmarks"))
    benchmark = runpy.run_path(str(ROOT / "benchmarks/untuned.py"))
    rows = [row for row in benchmark["stored"]() if "wrong" in row and "," not in row["method"]]
    by = {(row["table"], row["split"], row["method"]): row for row in rows}
    names = sorted({row["method"] for row in rows} - set(LEFT_OUT))
    runs = sorted({key[:2] for key in by})
    runs = [run for run in runs if all((*run, name) in by for name in names)]
    fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for name in names:
        found = [by[*run, name] for run in runs]
        error = 100 * np.mean([len(row["wrong"]) / row["n"] for row in found])
        seconds = np.mean([row["cpu"] for row in found])
        color = "#b5121b" if name == "AutoMetric" else "#777777" if name in OTHERS else "#2b6cb0"
        ax.plot(seconds, error, "o", color=color)
        ax.annotate(
            name, (seconds, error), (4, 3), textcoords="offset points", fontsize=8, color=color
        )
    ax.set_xscale("log")
    ax.margins(x=0.12)
    ax.set_xlabel("CPU seconds of a fit (mean)")
    ax.set_ylabel("3-NN test error, %")
    ax.set_title(f"Default parameters, {len(runs)} tables", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(HERE / "error-against-seconds.png", dpi=110)


if __name__ == "__main__":
    circles()
    error_against_seconds()
