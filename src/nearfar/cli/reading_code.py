"""Python code that reads the rows of a file without nearfar, for reports."""

from __future__ import annotations

from pathlib import Path

from nearfar.tables.array_formats import array_names
from nearfar.tables.formats import STREAM, kind_of, shown_name


def reading_code(source: str) -> str | None:
    """Return code that reads X from a file; None if a few lines cannot.

    Columns of tables are selected by `names`, which the code around it must have.

    Examples
    --------
    >>> from nearfar.cli.reading_code import reading_code
    >>> print(reading_code("rows.npy"))
    import numpy as np
    X = np.load('rows.npy')
    <BLANKLINE>
    >>> reading_code("iris")
    """
    path, shown = Path(source), shown_name(source)
    kind = kind_of(path)
    if shown == STREAM:
        return None
    if kind == ".npy":
        return f"import numpy as np\nX = np.load({shown!r})\n"
    if kind == ".npz":
        names = array_names(path)
        array = "X" if "X" in names else names[0]
        return f"import numpy as np\nX = np.load({shown!r})[{array!r}]\n"
    if kind == ".parquet":
        return f"import pandas as pd\nX = pd.read_parquet({shown!r})[names].to_numpy()\n"
    if kind == ".csv" and _has_commas(path):
        return f"import pandas as pd\nX = pd.read_csv({shown!r})[names].to_numpy()\n"
    return None


def _has_commas(path: Path) -> bool:
    with path.open("rb") as file:
        return b"," in file.readline()
