"""``nearfar adapt`` and ``nearfar search-report``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import polars as pl
import pytest
from ir_measures import RR, nDCG

import nearfar
from nearfar import RetrievalAdapter
from nearfar.search import adapt as searching
from nearfar.search import write_qrels
from nearfar.search.learning import Choice
from nearfar.typing import Floats
from search.adapters import noisy_searches

N_QUERIES = 80


def known(weights: Floats) -> type[RetrievalAdapter]:
    """Return an adapter that multiplies the columns of queries by known weights."""

    class Known(RetrievalAdapter):
        def _learn(self, Q: Floats, X: Floats, *rest: Any) -> None:
            super()._learn(Q, X, *rest)
            if self.learn:
                self.W_, self.chosen_ = np.diag(weights), Choice(True, 1.0, 1, 1.0, n_queries=9)

    return Known


@pytest.fixture
def weights(folder: Path) -> Floats:
    """Vectors and judgements in the working directory; return the weights that help."""
    Q, X, relevance, helpful = noisy_searches(N_QUERIES)
    ids = [f"d{row}" for row in range(len(X))]
    np.savez("q.npz", Q=Q)
    np.savez("d.npz", X=X, doc_id=ids)
    write_qrels("qrels.txt", relevance, document_ids=ids)
    return helpful


@pytest.fixture
def adapting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let commands use an adapter with known weights."""

    def use(weights: Floats) -> None:
        monkeypatch.setattr(searching, "RetrievalAdapter", known(weights))

    return use


INPUT = ["q.npz", "d.npz", "--qrels", "qrels.txt"]


def test_adapt_writes_what_helps(run: Any, weights: Floats, adapting: Any) -> None:
    adapting(weights)
    text = run("adapt", *INPUT).stdout
    assert "It helps: nDCG@10" in text
    assert f"Learned from {N_QUERIES} judged queries" in text
    assert text.splitlines()[-2:] == [
        "Adapter written to d-adapter.safetensors",
        "Next: nearfar neighbors d-adapter.safetensors d.npz --queries q.npz",
    ]
    assert RetrievalAdapter.load("d-adapter.safetensors").W_.diagonal().tolist() == weights.tolist()


def test_adapt_writes_nothing_that_does_not_help(run: Any, weights: Floats, adapting: Any) -> None:
    adapting(1 - weights)
    text = run("adapt", *INPUT, "--out", "a.safetensors", code=4).stdout
    assert text.splitlines()[-1].startswith("Nothing was written.")
    assert not Path("a.safetensors").exists()


def test_adapt_prints_json(document: Any, weights: Floats, adapting: Any) -> None:
    adapting(weights)
    found = document("adapt", *INPUT)
    assert found["adapter"] == "d-adapter.safetensors"
    assert found["comparison"]["verdict"]["category"] == "clearly better"
    assert found["outcome"] == "better"
    adapting(1 - weights)
    found = document("adapt", *INPUT, code=4)
    assert found["adapter"] is None
    assert found["outcome"] == "worse"


@pytest.mark.parametrize("side", ["query", "both"])
def test_adapt_saves_a_retrieval_adapter(run: Any, weights: Floats, side: str) -> None:
    text = run("adapt", *INPUT, "--side", side, "--folds", "2", "--out", "a.safetensors").stdout
    assert "Adapter written to a.safetensors" in text
    adapter = RetrievalAdapter.load("a.safetensors")
    assert (adapter.side, adapter.score) == (side, "cosine")
    with np.load("q.npz") as queries, np.load("d.npz") as documents:
        scores, _ = adapter.kneighbors(queries["Q"], documents["X"], k=3)
    assert scores.shape == (N_QUERIES, 3)


def test_a_fit_that_changes_nothing_is_noted(
    run: Any, document: Any, weights: Floats, adapting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapting(weights)
    fit, unchanged = RetrievalAdapter.fit, Choice(False, 1.0, 0, 0.0, n_queries=9)

    def few(self: RetrievalAdapter, Q: Floats, *rest: Any) -> RetrievalAdapter:
        fit(self, Q, *rest)
        self.chosen_ = unchanged if len(Q) == N_QUERIES else self.chosen_
        return self

    monkeypatch.setattr(RetrievalAdapter, "fit", few)
    result = run("adapt", *INPUT, code=3)
    assert "Note: Unchanged: no adapter raises nDCG@10" in result.stderr
    assert result.stdout.strip().endswith("Nothing was written.")
    assert not Path("d-adapter.safetensors").exists()
    found = document("adapt", *INPUT, code=3)
    assert (found["outcome"], found["adapter"]) == ("same", None)
    assert found["chosen"]["n_queries"] == 9


def test_searches_that_cannot_tell_write_nothing(run: Any, weights: Floats, folder: Path) -> None:
    Path("old.safetensors").write_bytes(b"of last night")
    few = "".join(Path("qrels.txt").read_text().splitlines(keepends=True)[:12])
    Path("few.txt").write_text(few)
    options = ["--qrels", "few.txt", "--out", "old.safetensors", "--json"]
    found = json.loads(run("adapt", "q.npz", "d.npz", *options, code=3).stdout)
    assert found["outcome"] in ("same", "cannot tell")
    assert found["adapter"] is None
    assert Path("old.safetensors").read_bytes() == b"of last night"


def test_an_adapter_is_not_judged_by_what_it_was_learned_from(run: Any, weights: Floats) -> None:
    lines = Path("qrels.txt").read_text().splitlines(keepends=True)
    Path("first.txt").write_text("".join(lines[:50]))
    run("adapt", "q.npz", "d.npz", "--qrels", "first.txt", "--out", "a.safetensors")
    given = ["search-report", "q.npz", "d.npz", "--adapter", "a.safetensors", "--qrels"]
    assert "learned from all of these queries" in run(*given, "first.txt", code=2).stderr
    result = run(*given, "qrels.txt")
    assert "learned from 50 of the 80 judged queries; they are left out" in result.stderr
    assert "30 queries" in Path("d.html").read_text(encoding="utf-8")


def test_search_report_writes_a_page_and_runs(run: Any, weights: Floats, adapting: Any) -> None:
    adapting(weights)
    text = run("search-report", *INPUT, "--run-out", "run.trec", "--title", "Our search").stdout
    assert "It helps: nDCG@10" in text
    assert "The best order of the first 100 results would have nDCG@10" in text
    assert "Report written to d.html" in text
    page = Path("d.html").read_text(encoding="utf-8")
    assert "nearfar search-report q.npz d.npz --qrels qrels.txt --run-out run.trec" in page
    assert "<h1>Our search</h1>" in page


def test_runs_have_the_figures_of_the_report(document: Any, weights: Floats, adapting: Any) -> None:
    adapting(weights)
    found = document("search-report", *INPUT, "--run-out", "run.trec", "--out", "r.html")
    assert found["runs"] == ["run.trec", "run-untouched.trec"]
    qrels = list(ir_measures.read_trec_qrels("qrels.txt"))
    searches = found["comparison"]["searches"]
    for file, search in zip(found["runs"][::-1], searches, strict=True):
        run = ir_measures.read_trec_run(file)
        expected = ir_measures.calc_aggregate([nDCG @ 10, RR @ 10], qrels, run)
        assert search["nDCG@10"] == pytest.approx(expected[nDCG @ 10], abs=1e-9)
        assert search["MRR@10"] == pytest.approx(expected[RR @ 10], abs=1e-9)


def test_the_same_command_gives_the_same_files(run: Any, weights: Floats, adapting: Any) -> None:
    adapting(weights)
    for name in ("one", "two"):
        run("search-report", *INPUT, "--run-out", f"{name}.trec", "--out", f"{name}.html")
    assert Path("one.trec").read_bytes() == Path("two.trec").read_bytes()


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_a_missing_package_is_named_before_the_work(
    fail: Any, weights: Floats, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(searching, "read_search", lambda *_: pytest.fail("worked"))
    assert f"A report needs {module}; run pip install" in fail("search-report", *INPUT)


def test_mistakes_end_in_one_line(run: Any, fail: Any, weights: Floats, folder: Path) -> None:
    assert "--qrels FILE or --beir FOLDER" in fail("adapt", "q.npz", "d.npz")
    Path("bad.txt").write_text("0 0 d1 1\n0 0 nothing 1\n")
    text = fail("adapt", "q.npz", "d.npz", "--qrels", "bad.txt")
    assert "bad.txt, line 2 names document 'nothing', which has no vector" in text
    Path("qrels.html").write_bytes(Path("qrels.txt").read_bytes())
    judged = ["q.npz", "d.npz", "--qrels", "qrels.html"]
    assert "is an input" in fail("search-report", *judged, "--out", "qrels.html")
    Path("few.txt").write_text("0 0 d1 1\n1 0 d2 1\n")
    text = run("adapt", "q.npz", "d.npz", "--qrels", "few.txt", code=2).stderr
    assert "Note: 78 of 80 queries have no relevant document and are not learned from." in text
    assert "5 folds need at least 5 queries with a relevant document; got 2" in text
    text = fail("search-report", *INPUT, "--run-out", "run.csv")
    assert "run.csv has the name of a table" in text
    assert "results is 500" in fail("adapt", *INPUT, "--results", "500")


def test_adapt_in_python(weights: Floats, adapting: Any) -> None:
    adapting(weights)
    adapted = nearfar.adapt("q.npz", "d.npz", "qrels.txt", folds=2)
    assert adapted.verdict is not None
    assert adapted.verdict.helps
    assert str(adapted).startswith(str(adapted.comparison))
    adapted.save(Path("a.safetensors"))
    assert "Adapter written to a.safetensors" in adapted._repr_html_()
    adapted.report("d.html", title="Searches")
    assert "<h1>Searches</h1>" in Path("d.html").read_text()
    arrays = np.load("q.npz")["Q"], np.load("d.npz")["X"], adapted.data.relevance
    # The tables also have times, which differ.
    assert nearfar.adapt(*arrays, folds=2).verdict == adapted.verdict


def test_adapt_in_python_saves_nothing_that_does_not_help(weights: Floats, adapting: Any) -> None:
    adapting(1 - weights)
    adapted = nearfar.adapt("q.npz", "d.npz", "qrels.txt", folds=2)
    assert adapted.adapter is None
    with pytest.raises(ValueError, match="no adapter to write"):
        adapted.save("a.safetensors")


def test_a_target_certifies_a_cutoff(run: Any, document: Any, weights: Floats) -> None:
    made = run("adapt", *INPUT, "--target", "recall>=0.5", "--out", "a.safetensors").stdout
    adapter = nearfar.RetrievalAdapter.load("a.safetensors")
    assert adapter.cutoff_ is not None
    assert str(adapter.cutoff_) in made
    assert str(adapter.cutoff_) in run("show", "a.safetensors").stdout
    learned = adapter.cutoff_.parts["all"]["n_queries"]
    assert f"{N_QUERIES - learned} queries" in made.splitlines()[0]
    assert document("show", "a.safetensors")["cutoff"]["value"] == adapter.cutoff_.value
    asked = ["neighbors", "a.safetensors", "d.npz", "--queries", "q.npz"]
    result = run(*asked, "--neighbors", "50", "--out", "n.csv")
    with np.load("q.npz") as queries, np.load("d.npz") as documents:
        answers = adapter.answer(queries["Q"], documents["X"], k=50)
    assert len(Path("n.csv").read_text().splitlines()) == 1 + sum(len(d) for _, d in answers)
    none = sum(not len(found) for _, found in answers)
    assert (f"{none} of {N_QUERIES} queries get no answer" in result.stderr) == (none > 0)
    assert f"Neighbours of {N_QUERIES} rows, at most 50 each, written" in result.stdout
    run("search-report", *INPUT, "--adapter", "a.safetensors")
    page = Path("d.html").read_text(encoding="utf-8")
    assert "When is nothing returned?" in page
    assert "All queries of this report took part in this" in page


def test_queries_without_an_answer_say_so(run: Any, weights: Floats) -> None:
    adapter = nearfar.adapt("q.npz", "d.npz", "qrels.txt", target="recall>=0.5", folds=2).adapter
    assert adapter is not None
    assert adapter.cutoff_ is not None
    adapter.cutoff_ = replace(adapter.cutoff_, value=1e6)
    adapter.save("none.safetensors")
    asked = run("neighbors", "none.safetensors", "d.npz", "--queries", "q.npz", "--row", "3")
    assert "no answer" in asked.stdout
    assert "1 of 1 queries get no answer: no score is 1e+06 or more." in asked.stderr


def test_a_cutoff_is_written_for_unchanged_vectors(
    run: Any, document: Any, weights: Floats
) -> None:
    rng = np.random.default_rng(0)
    np.savez("q.npz", Q=rng.normal(size=(N_QUERIES, len(weights))))
    given = [*INPUT, "--target", "recall>=0.5", "--out", "a.safetensors"]
    assert "Vectors stay unchanged" in run("adapt", *given).stdout
    adapter = nearfar.RetrievalAdapter.load("a.safetensors")
    assert np.array_equal(adapter.W_, np.eye(len(weights)))
    assert len(adapter.learned_queries_) == 0
    assert f"from {len(adapter.cutoff_queries_)} queries" in run("show", "a.safetensors").stdout
    assert "not known" not in run("search-report", *INPUT, "--adapter", "a.safetensors").stderr
    page = Path("d.html").read_text(encoding="utf-8")
    fresh = N_QUERIES - len(adapter.cutoff_queries_)
    assert f"{fresh} queries of this report took no part in this: recall" in page
    found = document("adapt", *given)
    assert found["outcome"] in ("same", "cannot tell", "worse")
    assert found["cutoff"]["bound"] >= 0.5


def test_a_target_that_cannot_be_certified_writes_nothing(run: Any, weights: Floats) -> None:
    result = run("adapt", *INPUT, "--target", "recall>=0.98", code=3)
    assert "recall>=0.98 cannot be certified with 95 % confidence" in result.stdout
    assert "give about" in result.stdout
    assert not Path("d-adapter.safetensors").exists()
    given = ["adapt", *INPUT, "--target", "recall>=0.98", "--json"]
    found = json.loads(run(*given, code=3).stdout)
    assert found["outcome"] == "not certified"
    assert found["queries_needed"] > N_QUERIES
    assert "The target of a search" in run("adapt", *INPUT, "--target", "eer", code=2).stderr
    refused = nearfar.adapt("q.npz", "d.npz", "qrels.txt", target="recall>=0.98", folds=2)
    assert refused.adapter is None
    assert refused.refusal is not None
    assert refused.refusal.strongest is not None


def test_queries_of_grade_0_deserve_nothing(weights: Floats) -> None:
    judged = Path("qrels.txt").read_text().splitlines()
    lines = [line[:-1] + "0" if row % 5 == 0 else line for row, line in enumerate(judged)]
    Path("qrels.txt").write_text("\n".join(lines))
    adapted = nearfar.adapt("q.npz", "d.npz", "qrels.txt", target="recall>=0.5", folds=2)
    assert adapted.cutoff is not None
    parts = adapted.cutoff.parts
    assert 0 < parts["nothing"]["n_queries"] < parts["all"]["n_queries"] < N_QUERIES
    assert "of them deserve nothing" in str(adapted)


def test_arguments_of_adapt_are_named_as_they_are() -> None:
    Q, X = np.ones((5, 3)), np.ones((9, 3))
    with pytest.raises(ValueError, match="with qrels="):
        nearfar.adapt(Q, X)
    for judged in ({"q0": {"d1": 1}}, pl.DataFrame({"query": ["q0"]})):
        with pytest.raises(TypeError, match=f"a path or a Relevance; got {type(judged).__name__}"):
            nearfar.adapt(Q, X, judged)  # type: ignore[arg-type]
