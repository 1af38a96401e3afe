"""The checks of the documentation find errors of every kind, on a small page of a small package."""

from __future__ import annotations

import pytest

from docs.defaults import wrong_defaults, wrong_docstrings
from docs.files import missing_paths
from docs.names import broken_blocks, unknown_names
from docs.options import unknown_options, wrong_option_defaults
from docs.package import Package
from docs.pages import Page

SOURCE = '''
from nearfar.strategies import Nearest

LIMIT = 1 << 10


class Base:
    """What learners share."""

    def fit(self, X, y) -> Self:
        """Fit."""


class Learner(Base):
    """Learn.

    Parameters
    ----------
    rate : float, default=0.5
    size : int, default=1024
    strategy : Nearest, default=Nearest(k=3)

    Attributes
    ----------
    metric_ : Metric
    """

    def __init__(self, *, rate=0.5, size=LIMIT, strategy=None):
        self.rate = rate
        self.strategy = Nearest() if strategy is None else strategy


@learner
class Shared:
    """Parameters that learners share."""

    penalty: float = 0.5
    limit: float = 0.1


@learner
class Booster(Shared):
    """Boost.

    Parameters
    ----------
    steps : int, default=10
    """

    steps: int = 10


class Metric:
    """The result."""

    def save(self, path, *, overwrite=False):
        """Save."""


def measure(metric: Metric, k=3) -> float:
    """Measure.

    Parameters
    ----------
    metric : Metric
    k : int, default=3
    """
'''
STRATEGIES = '''
from dataclasses import dataclass


@dataclass
class Nearest:
    """Nearest rows."""

    k: int = 3
'''
TRUE = """# Learner

See [below](#the-end) and [the other page](other.md#a-part-of-it). `strategies.py` is in
`src/nearfar/`. `Learner(rate=0.1)` learns faster; `rate=0.5` is the default.
By default, steps are even (`rate=0.5`). The default `size` is 1024. `k` (default 3) is for
`measure`. The default `limit` is 0.1.

- `Learner().fit(X, y)`, `learner.metric_`, `Metric.save`, `nearfar.measure(metric, k=5)`
- `Booster(steps=5, penalty=1.0)`, `Booster().history_`
- `--seed 3` and `nearfar learn --budget 3s`; `--budget` (60 seconds by default)

```
src/nearfar/
├── __init__.py     all
└── strategies.py   where rows come from
```

```python
from nearfar import Learner, measure

learner = Learner(rate=0.1).fit(X, y)
learner.metric_.save("file", overwrite=True)
measure(learner.metric_, k=3)
```

## The end
"""
COMMANDS = {"learn": {"--budget": "60s", "--seed": 0}, "show": {"--help": None}}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "src/nearfar"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "strategies.py").write_text(STRATEGIES)
    (tmp_path / "other.md").write_text("# Other\n\n## A part of it\n")
    return tmp_path


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    monkeypatch.setattr("docs.names.VARIABLES", {"learner": "Learner", "metric": "Metric"})


def generated(cls):
    """Return the docstring of a learner with what it shares with others."""
    shared = "\npenalty : float, default=0.5\n\nAttributes\n----------\nhistory_ : History\n"
    return cls.doc + shared if cls.name == "Booster" else cls.doc


def found(project, text, *, source=None):
    """Return what all checks find on a page, without the name of the page."""
    if source:
        (project / "src/nearfar/__init__.py").write_text(source)
    page, package = Page("page.md", text), Package(project / "src/nearfar", generated)
    return [
        message.removeprefix("page.md:")
        for messages in (
            missing_paths(page, project),
            unknown_names(page, package, project),
            broken_blocks(page, package),
            unknown_options(page, COMMANDS),
            wrong_option_defaults(page, COMMANDS),
            wrong_defaults(page, package),
            wrong_docstrings(package),
        )
        for message in messages
    ]


def test_a_true_page(project):
    assert found(project, TRUE) == []


@pytest.mark.parametrize(
    ("true", "false", "message"),
    [
        ("`strategies.py`", "`strategy.py`", "3: no file `strategy.py`"),
        ("`src/nearfar/`", "`src/far/`", "4: no file `src/far/`"),
        ("(#the-end)", "(#an-end)", "3: no heading for #an-end"),
        ("other.md#a-part", "another.md#a-part", "3: no file another.md"),
        ("#a-part-of-it", "#a-part", "3: no heading for other.md#a-part"),
    ],
)
def test_files(project, true, false, message):
    assert found(project, TRUE.replace(true, false)) == [message]


def test_the_drawn_tree_has_every_file_once(project):
    drawn = "└── strategies.py   where rows come from\n"
    short = TRUE.replace(drawn, "")
    assert found(project, short) == ["13: src/nearfar/strategies.py is not in the tree"]
    assert found(project, TRUE.replace("└── strategies", "└── constraints")) == [
        "15: no file src/nearfar/constraints.py",
        "13: src/nearfar/strategies.py is not in the tree",
    ]
    long = TRUE.replace(drawn, 2 * drawn)
    assert found(project, long) == ["13: src/nearfar/strategies.py is in the tree 2 times"]
    (project / "src/nearfar/rows").mkdir()
    (project / "src/nearfar/rows/__init__.py").touch()
    assert found(project, TRUE) == []
    (project / "src/nearfar/rows/page.css").touch()
    assert found(project, TRUE) == ["13: src/nearfar/rows/page.css is not in the tree"]


@pytest.mark.parametrize(
    ("true", "false", "message"),
    [
        ("`measure`", "`measured`", "no `measured` in the package"),
        ("`measure`", "`_private`", "no `_private` in the package"),
        ("`measure`", "`rates=1`", "nothing has a parameter `rates`"),
        ("`measure`", "`Learner.fitted`", "Learner has no `fitted`"),
        ("`measure`", "`Learner.fit(X, y, 3)`", "Learner.fit takes 2 positional arguments"),
        ("learner.metric_", "learner.gap_", "Learner has no `gap_`"),
        ("Metric.save`", "Metric.saved`", "Metric has no `saved`"),
        ("Learner(rate=0.1)`", "Learner(speed=0.1)`", "Learner has no parameter `speed`"),
        ("nearfar.measure(", "nearfar.measured(", "nearfar has no `measured`"),
        ("Booster(steps=5", "Booster(step=5", "Booster has no parameter `step`"),
        ("penalty=1.0", "penalties=1.0", "Booster has no parameter `penalties`"),
        ("Booster(steps=5, ", "Booster(5, ", "Booster takes 0 positional arguments"),
        ("Booster().history_", "Booster().past_", "Booster has no `past_`"),
        ("k=5", "n=5", "nearfar.measure has no parameter `n`"),
        ("`measure`", "`model.fit`", "`model` is neither a module, a class nor a known variable"),
        ("`measure`", "`NEARFAR_NOTHING`", "nothing reads the variable NEARFAR_NOTHING"),
        ("`measure`", "what `Metric` has (`save`, `load`)", "Metric has no `load`"),
    ],
)
def test_names(project, true, false, message):
    messages = found(project, TRUE.replace(true, false, 1))
    assert any(m.endswith(message) for m in messages), messages


@pytest.mark.parametrize(
    ("true", "false", "message"),
    [
        ("import Learner, measure", "import Learner measure", "19: invalid syntax"),
        ("import Learner, measure", "import Learned, measure", "19: cannot import Learned from"),
        ("from nearfar import", "from nearfar.far import", "19: cannot import Learner from"),
        (
            "from nearfar import",
            "import nearfar.far\nfrom nearfar import",
            "19: cannot import nearfar",
        ),
        ("Learner(rate=0.1).fit", "Learner(speed=0.1).fit", "21: Learner has no parameter `speed`"),
        (".save(", ".load(", "22: Metric has no `load`"),
        ("overwrite=True", "replace=True", "22: learner.metric_.save has no parameter `replace`"),
        ("measure(learner.metric_, k=3)", "measure(1, 2, 3)", "23: measure takes 2 positional"),
    ],
)
def test_blocks_of_python(project, true, false, message):
    messages = found(project, TRUE.replace(true, false, 1))
    assert any(m.startswith(message) for m in messages), messages


@pytest.mark.parametrize(
    ("true", "false", "message"),
    [
        ("--seed", "--random", "the command line has no option --random"),
        ("nearfar learn", "nearfar show", "show has no option --budget"),
        ("nearfar learn", "nearfar train", "no command train"),
        ("60 seconds", "90 seconds", "--budget is 90 seconds; found ['60s']"),
    ],
)
def test_options(project, true, false, message):
    (only,) = found(project, TRUE.replace(true, false))
    assert only.endswith(message)


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("`rate=0.5` is the default", "`rate=0.7` is the default"),
        ("even (`rate=0.5`)", "even (`rate=0.7`)"),
        ("even (`rate=0.5`)", "even (`Learner(rate=0.7)`)"),
        ("`size` is 1024", "`size` is 1000"),
        ("(default 3)", "(default 4)"),
        ("`limit` is 0.1", "`limit` is 0.2"),
    ],
)
def test_defaults(project, true, false):
    (only,) = found(project, TRUE.replace(true, false))
    assert "is not the default" in only


def test_other_values_are_not_called_defaults(project):
    text = "# Learner\n\nIt is the default with `rate=0.7`. None by default, but `rate=0.9` here.\n"
    assert found(project, text) == []


@pytest.mark.parametrize(
    ("true", "false", "message"),
    [
        ("float, default=0.5", "float, default=0.7", "Learner: the default of rate is 0.5, not"),
        ("default=1024", "default=1000", "Learner: the default of size is LIMIT, not 1000"),
        ("Nearest(k=3)", "Nearest(k=4)", "Learner: the default of strategy is None, not"),
        ("default=1024", "default=1 KiB", "Learner: the default of size is LIMIT, not 1 KiB"),
        ("rate : float", "speed : float", "Learner: no parameter speed"),
        ("steps : int, default=10", "steps : int, default=9", "Booster: the default of steps is"),
        ("penalty: float = 0.5", "penalty: float = 0.7", "Booster: the default of penalty is"),
        ("metric : Metric", "metric : Metric, optional", "measure: metric is not optional"),
        ("k : int, default=3", "k : int, default=5", "measure: the default of k is 3, not 5"),
    ],
)
def test_docstrings(project, true, false, message):
    (only,) = found(project, TRUE, source=SOURCE.replace(true, false, 1))
    assert only.startswith(f"nearfar.{message}")
