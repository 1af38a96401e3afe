"""Draw README's picture, which is that of an example: ``python docs/images/draw.py``."""

import runpy
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def circles() -> None:
    """Draw points before and after."""
    example = runpy.run_path(str(ROOT / "examples/start/plot_circles.py"))
    example["fig"].savefig(HERE / "circles.png", dpi=110)


if __name__ == "__main__":
    circles()
