"""Draw README's picture from an example of the gallery: ``python docs/images/draw.py``."""

import runpy
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
HERE = Path(__file__).parent
example = runpy.run_path(str(HERE.parents[1] / "examples/start/plot_circles.py"))
example["fig"].savefig(HERE / "circles.png", dpi=110)
