"""Where files come from: the time, the data, and files that do not say."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nearfar import Metric, RetrievalAdapter
from nearfar.metrics.file_format import read_metadata
from nearfar.metrics.training_facts import Stated, Threshold, save_learned, save_threshold
from nearfar.runtime.tensor_file import Provenance
from search.adapters import noisy_searches

DIGESTS = np.array([3, 1, 2])


def test_the_time_is_now_or_fixed(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.9)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert Provenance.now({}, DIGESTS).made == "2027-01-15T08:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert Provenance.now({}, DIGESTS).made == "1970-01-01T00:00:00Z"


def test_the_fingerprint_is_that_of_the_rows():
    one = Provenance.now({"rows": 3}, DIGESTS)
    assert one == Provenance.now({"rows": 3}, DIGESTS[::-1])
    assert one.fingerprint != Provenance.now({"rows": 3}, DIGESTS + 1).fingerprint


def test_sentences():
    made = Provenance("2027-01-15T08:00:00Z", "1.2", {"queries": 9, "documents": 5183}, "ab12")
    line = "Made 2027-01-15T08:00:00Z by nearfar 1.2 from 9 queries and 5,183 documents"
    assert str(made) == f"{line} (fingerprint ab12)."


def test_metrics_keep_it_when_a_threshold_is_added(tmp_path):
    path, X = tmp_path / "metric", np.arange(6.0).reshape(3, 2)
    stated = Stated("error", 0.1, "error 10.0 % (LDA, 3 rows)", "clearly better, error 10.0 %")
    save_learned(Metric.identity(2), path, X, stated=stated)
    made = Provenance.read(read_metadata(path))
    assert made.data == {"rows": 3}
    assert made.verdict == "clearly better, error 10.0 %"
    save_threshold(path, Threshold(1.0))
    assert Provenance.read(read_metadata(path)) == made


def test_adapters_keep_it(tmp_path):
    Q, X, relevance, _ = noisy_searches(40)
    adapter = RetrievalAdapter(cv=None, max_iter=1).fit(Q, X, relevance)
    assert adapter.provenance_.data == {"queries": 40, "documents": len(X)}
    adapter.save(tmp_path / "one")
    loaded = RetrievalAdapter.load(tmp_path / "one")
    assert loaded.provenance_ == adapter.provenance_
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_files_that_do_not_say(tmp_path):
    Q, X, relevance, _ = noisy_searches(40)
    adapter = RetrievalAdapter(cv=None, max_iter=1).fit(Q, X, relevance)
    adapter.provenance_ = None
    adapter.save(tmp_path / "old")
    assert RetrievalAdapter.load(tmp_path / "old").provenance_ is None
    assert Provenance.read({}) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"data": 3}', '{"data": {"rows": "x"}}', json.dumps({"data": {}})]
)
def test_damaged_entries(text):
    with pytest.raises(ValueError, match="'provenance' is damaged"):
        Provenance.read({"provenance": text})


def test_long_texts_of_a_file_are_cut(tmp_path):
    entry = {"made": "m" * 5000, "nearfar": "n" * 5000, "data": {"rows": 3}, "fingerprint": "ab"}
    assert len(str(Provenance.read({"provenance": json.dumps(entry)}))) < 2000
    Metric.identity(2).save(tmp_path / "metric")
    content = (tmp_path / "metric").read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"]["version"] = "v" * 5000
    text = json.dumps(header).encode()
    (tmp_path / "metric").write_bytes(len(text).to_bytes(8, "little") + text + content[start:])
    with pytest.raises(ValueError, match="format version") as raised:
        Metric.load(tmp_path / "metric")
    assert len(str(raised.value)) < 500
