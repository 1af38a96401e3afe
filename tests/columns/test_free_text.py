"""Free text: as scikit-learn has it, after save and load, and of bounded size."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from columns.scikit import column_transformer
from nearfar import Metric
from nearfar.columns import Columns
from nearfar.columns.columns import column_examples
from nearfar.columns.guess import FreeText

RNG = np.random.default_rng(0)
WORDS = [f"word{n}" for n in range(60)]
TABLE = pl.DataFrame(
    {
        "story": [" ".join(RNG.choice(WORDS, 9)) for _ in range(80)],
        "x": RNG.standard_normal(80),
    }
)


@pytest.fixture(scope="module")
def columns():
    return Columns(text=["story"]).fit(TABLE)


def test_only_if_asked():
    assert Columns().fit(TABLE).left_out_ == {"story": "free text"}


def test_as_scikit_learn_users_write_it(columns):
    tfidf = TfidfVectorizer(min_df=2, max_features=1000, sublinear_tf=True, strip_accents="unicode")
    expected = TruncatedSVD(20, random_state=0).fit_transform(tfidf.fit_transform(TABLE["story"]))
    assert columns.feature_names[:2] == ("story (text 1)", "story (text 2)")
    assert [each.taken_as for each in column_examples(columns)] == ["text, 20 numbers", "number"]
    np.testing.assert_allclose(columns.apply(TABLE)[:, :20], expected, rtol=0, atol=1e-6)
    same = column_transformer(columns).fit_transform(TABLE)
    np.testing.assert_allclose(columns.apply(TABLE), same, rtol=0, atol=1e-6)


def test_new_rows(columns, tmp_path):
    metric = Metric(np.eye(21)).with_columns(columns)
    metric.save(tmp_path / "m.safetensors")
    again = Metric.load(tmp_path / "m.safetensors").columns
    assert again == columns
    new = pl.DataFrame({"story": ["WORD3, word3!", None, "nothing known"], "x": [0.0, 0.0, 0.0]})
    found = again.apply(new)
    kind = columns.kinds_[0]
    np.testing.assert_allclose(found[0, :20], np.array(kind.axes)[:, kind.words.index("word3")])
    assert not found[1:].any()


def test_the_size_is_bounded():
    cells = [" ".join(f"w{n}x{k}" for k in range(700)) + " y" * 5 for n in range(4)] * 2
    cells.append("z" * 10**6)
    kind = Columns(text=["t"]).fit(pl.DataFrame({"t": cells})).kinds_[0]
    assert len(kind.words) == 1000
    assert max(map(len, kind.words)) <= 40
    assert len(json.dumps(kind.document())) < 600_000


def test_few_words():
    table = pl.DataFrame({"t": ["yes", "yes", "no", None]})
    columns = Columns(text=["t"]).fit(table)
    assert columns.apply(table).tolist() == [[1], [1], [0], [0]]
    assert column_transformer(columns).fit_transform(table).tolist() == [[1], [1], [0], [0]]
    once = Columns(text=["t"]).fit(pl.DataFrame({"t": ["red", "green"]}))
    assert once.kinds_[0].words == ("green", "red")
    with pytest.raises(ValueError, match="Column t: it has no words"):
        Columns(text=["t"]).fit(pl.DataFrame({"t": ["?", "!"]}))


def test_either_text_or_something_else():
    with pytest.raises(ValueError, match="'x' is either numeric or text, not both"):
        Columns(text=["x"], numeric=["x"]).fit(TABLE)
    with pytest.raises(ValueError, match=r"no column 'storey'.* Did you mean 'story'\?"):
        Columns(text=["storey"]).fit(TABLE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"words": ["a", "a"]},
        {"weights": [1.0]},
        {"axes": [[1.0]]},
        {"axes": []},
        {"axes": [[1.0, float("nan")]]},
        {"weights": [1.0, float("inf")]},
    ],
)
def test_other_json_is_refused(wrong):
    right = {"words": ["a", "b"], "weights": [1.0, 1.0], "axes": [[1.0, 0.0]]}
    FreeText("t", **right)
    with pytest.raises(ValueError, match=r"."):
        FreeText("t", **(right | wrong))


def test_rows_of_the_same_words():
    table = pl.DataFrame({"t": ["red hen", "hen red"] * 3})
    assert np.isfinite(Columns(text=["t"]).fit(table).apply(table)).all()
