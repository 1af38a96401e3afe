"""Public names of the last version work, at least with a warning, or are listed as removed."""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

import nearfar
from nearfar.constraints import NearestTriplets, RandomPairs
from nearfar.runtime.deprecation import renamed

FOLDER = Path(__file__).parent
LAST_VERSION, *NAMES = (FOLDER / "last_version.txt").read_text().split()
"""The last version, and what was public in it; `.ci/release` writes the file."""

REMOVED: dict[str, str] = {}
"""Names that had an alias with a warning for one version, by the version that removed them."""


def found(path: str) -> tuple[bool, list[str]]:
    """Return whether a name exists, and the warnings that it gives."""
    home, _, name = path.rpartition(".")
    module = import_module(home)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        exists = hasattr(module, name)
    return exists, [str(w.message) for w in given if w.category is FutureWarning]


def test_names_of_the_last_version():
    for path in NAMES:
        home, _, name = path.rpartition(".")
        exists, messages = found(path)
        if path in REMOVED:
            assert not exists
            assert REMOVED[path] != LAST_VERSION
            continue
        assert exists, f"{path} is gone; give it an alias with nearfar.runtime.deprecation.renamed"
        if name not in import_module(home).__all__:
            assert len(messages) == 1, f"{path} is no longer public, and does not warn"
            assert "the old name will be removed" in messages[0]


def test_a_release_records_the_names_of_the_package_and_of_its_modules():
    script = run_path(str(FOLDER.parents[1] / ".ci" / "public_names.py"))
    names = script["public_names"]()
    assert {f"nearfar.{name}" for name in nearfar.__all__ if name != "__version__"} <= set(names)
    assert "nearfar.constraints.Triplets" in names


def test_what_is_renamed_is_in_the_changelog():
    changelog = (FOLDER.parents[1] / "CHANGELOG.md").read_text()
    unreleased = changelog.partition(f"\n## {LAST_VERSION}")[0]
    for path in NAMES:
        home, _, name = path.rpartition(".")
        if name not in import_module(home).__all__:
            assert re.search(rf"`(?:nearfar[\w.]*\.)?{name}`", unreleased), path


def test_the_list_is_of_the_last_version():
    changelog = (FOLDER.parents[1] / "CHANGELOG.md").read_text()
    assert nearfar.__version__.startswith(f"{LAST_VERSION}.")
    assert re.search(rf"^## {re.escape(nearfar.__version__)} ", changelog, re.MULTILINE)
    assert "nearfar.BoostMetric" in NAMES
    assert len(NAMES) == len(set(NAMES))


def test_a_name_without_an_alias_is_found(monkeypatch):
    monkeypatch.delattr(nearfar.losses, "Exponential")
    assert found("nearfar.losses.Exponential") == (False, [])


def test_names_of_other_modules():
    find = renamed("math", {"mean": "statistics.mean", "root": "sqrt"}, {"mean": "a loop"})
    with pytest.warns(FutureWarning, match=r"math\.mean is now a loop; the old name will be"):
        assert find("mean")([1, 3]) == 2
    with pytest.warns(FutureWarning, match=r"math\.root is now math\.sqrt; the old name will be"):
        assert find("root")(4) == 2
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        find("other")


@pytest.mark.parametrize(
    ("name", "strategy"), [("to_triplets", NearestTriplets(1, 1)), ("to_pairs", RandomPairs(20))]
)
def test_deprecated_conversions(rng, name, strategy):
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 2
    with pytest.warns(FutureWarning, match=r"is now Supervision\.of"):
        convert = getattr(nearfar.constraints, name)
    expected = strategy(X, y, np.random.RandomState(3))
    assert np.array_equal(convert(X, y, strategy, np.random.RandomState(3)).index, expected.index)
