"""Write a report: render the sections of a study as one HTML file."""

from __future__ import annotations

import os

from nearfar.report.headline import headlines, reason
from nearfar.report.sections import Progress, sections
from nearfar.report.study import Study
from nearfar.runtime.atomic_write import atomic_write

_MIN_ROWS = 10


def write_report(
    path: str | os.PathLike[str], study: Study, *, progress: Progress | None = None
) -> None:
    """Write a report as one HTML file that needs no network.

    Parameters
    ----------
    path : path-like
        An existing file is replaced only once the report is complete.
    study : Study
    progress : callable, optional
        Called before each section with the number of finished sections, their total, and the name
        of the next one.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from nearfar import BoostMetric
    >>> from nearfar.report import Study, write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> def learn(X, y):
    ...     return BoostMetric(max_iter=10).fit(X, y)
    >>> study = Study("iris", X, y, learn(X, y).metric_, "BoostMetric", relearn=learn)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "iris.html"
    ...     write_report(path, study)
    ...     path.read_text()[:15]
    '<!DOCTYPE html>'
    """
    if len(study.X) < _MIN_ROWS:
        raise ValueError(f"A report needs at least {_MIN_ROWS} rows; got {len(study.X)}.")
    text = render(study, progress)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def render(study: Study, progress: Progress | None = None) -> str:
    """Return the page as HTML; see `write_report`."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('A report needs Jinja: pip install "nearfar[report]".') from error
    environment = Environment(
        loader=PackageLoader("nearfar.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    from nearfar import __version__

    return environment.get_template("page.html").render(
        study=study,
        headlines=headlines(study),
        reason=reason(study),
        sections=list(sections(study, progress)),
        version=__version__,
    )
