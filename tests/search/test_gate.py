"""A new version against the old one: figures by brute force, mirrored verdicts, refusals, and
``nearfar gate``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from nearfar import Metric, Pairs, RetrievalAdapter, Triplets, gate
from nearfar.frames import Table
from nearfar.metrics.training_facts import save_learned
from nearfar.search import JudgedRanking, search, write_qrels
from nearfar.tables.evaluate import evaluate_metric
from search.adapters import noisy_searches

Q, X, RELEVANCE, HELPFUL = noisy_searches(120)
LEARNED, JUDGED = np.arange(20), np.arange(20, 120)


def save_adapter(path, weights, learned=LEARNED):
    """Write an adapter that multiplies columns of queries, learned from other queries."""
    adapter = RetrievalAdapter(cv=None, max_iter=1, score="dot")
    adapter.fit(Q, X, RELEVANCE.subset(learned))
    adapter.W_ = np.diag(np.asarray(weights, dtype=float))
    adapter.save(path)
    return path


@pytest.fixture
def adapters(tmp_path):
    files = {"plain": np.ones(len(HELPFUL)), "helpful": HELPFUL, "slightly": HELPFUL + 0.5}
    return {name: save_adapter(tmp_path / name, weights) for name, weights in files.items()}


def gate_searches(old, new, queries=JUDGED, **options):
    return gate(old, new, Q, X, qrels=RELEVANCE.subset(queries), **options)


def test_searches_by_brute_force(adapters):
    judged = RELEVANCE.subset(JUDGED)
    found = gate_searches(adapters["plain"], adapters["helpful"], results=5)
    for weights, figure in ((np.ones(len(HELPFUL)), found.before), (HELPFUL, found.after)):
        ranking = search(Q * weights, X, 5, queries=judged.queries)
        assert figure == pytest.approx(JudgedRanking(ranking, judged).ndcg(5).mean())
    assert (found.measure, found.cases, found.n) == ("nDCG@5", "searches", 100)
    assert found.seen.n_queries + found.unseen.n_queries == 100
    assert (found.outcome, found.recommended) == ("better", "the new version")
    assert str(found).startswith("Compared on 100 searches. Better: nDCG@5 ")


def test_order_mirrors_the_verdict(adapters):
    forth = gate_searches(adapters["plain"], adapters["helpful"])
    back = gate_searches(adapters["helpful"], adapters["plain"])
    assert (forth.outcome, back.outcome) == ("better", "worse")
    assert (forth.before, forth.after) == (back.after, back.before)
    assert forth.probability == pytest.approx(back.harm)
    assert back.probability == pytest.approx(forth.harm)
    assert back.recommended == "the old version"
    assert "Keep the old version." in back.headline


def test_a_version_is_not_better_than_itself(adapters, tmp_path):
    again = save_adapter(tmp_path / "again", HELPFUL)
    for new in (adapters["helpful"], again):
        found = gate_searches(adapters["helpful"], new)
        assert (found.outcome, found.before) == ("same", found.after)
        assert found.headline == "The same: no search differs."


def test_few_searches_cannot_tell(adapters):
    found = gate_searches(adapters["plain"], adapters["slightly"], JUDGED[:8])
    assert found.outcome in ("same", "cannot tell")


def test_untouched_vectors_are_the_identity(adapters):
    found = gate_searches("untouched", adapters["helpful"])
    assert found.before == gate_searches(adapters["plain"], adapters["helpful"]).before
    assert found.outcome == "better"
    assert gate_searches("untouched", adapters["plain"]).outcome == "same"


def test_the_new_version_may_be_untouched(adapters):
    back = gate_searches(adapters["helpful"], "untouched")
    forth = gate_searches("untouched", adapters["helpful"])
    assert (back.outcome, back.recommended) == ("worse", "the old version")
    assert (back.before, back.after) == (forth.after, forth.before)
    with pytest.raises(ValueError, match="Give a file as the new version"):
        gate_searches("untouched", "untouched")
    with pytest.raises(ValueError, match="Give a file as the new version"):
        gate(adapters["plain"], "untouched", table=X, label=X[:, 0] > 0)


def test_the_same_needs_an_interval_that_says_so(adapters, tmp_path):
    rng, losing = np.random.default_rng(3), []
    for number in range(6):
        weights = HELPFUL + 0.1 * rng.standard_normal(len(HELPFUL))
        other = save_adapter(tmp_path / str(number), weights)
        for pair in ((adapters["helpful"], other), (other, adapters["helpful"])):
            found = gate_searches(*pair)
            losing += [found.outcome] * (found.after < found.before)
            assert found.outcome != "same" or max(-found.low, found.high) <= 0.005
    assert "cannot tell" in losing


def test_documents_of_another_model_are_warned_of(adapters):
    judged, turned = RELEVANCE.subset(JUDGED), X[:, ::-1]
    found = gate("untouched", adapters["helpful"], Q[:, ::-1], turned, qrels=judged)
    said = "documents that the new version learned from has the same vector here"
    assert any(said in note.text for note in found.notes)
    same = gate_searches("untouched", adapters["helpful"])
    assert not any(said in note.text for note in same.notes)


def test_searches_that_lose_for_unseen_documents_do_not_pass(adapters, monkeypatch):
    """The rule of all searches holds for versions, too."""
    from nearfar.search.comparison import SearchComparison

    monkeypatch.setattr(SearchComparison, "_harm_of_unseen", lambda self, result: 0.99)
    assert gate_searches(adapters["plain"], adapters["helpful"]).outcome == "worse"


@pytest.mark.parametrize("which", ["plain", "helpful"])
def test_queries_that_were_learned_from_are_refused(adapters, tmp_path, which):
    files = adapters | {which: save_adapter(tmp_path / which, HELPFUL, np.arange(17, 23))}
    message = rf"{which} was learned from 3 of these 100 queries \(20, 21, 22\)"
    with pytest.raises(ValueError, match=message):
        gate_searches(files["plain"], files["helpful"])
    assert gate_searches(files["plain"], files["helpful"], JUDGED[3:]).n == 97


def test_queries_in_another_precision_are_refused(adapters):
    pair = adapters["plain"], adapters["helpful"]
    for stored in (Q.astype(np.float32), Q.astype(np.float32).astype(np.float64)):
        with pytest.raises(ValueError, match="plain was learned from 10 of these 110 queries"):
            gate(*pair, stored, X, qrels=RELEVANCE.subset(np.arange(10, 120)))
        assert gate(*pair, stored, X, qrels=RELEVANCE.subset(JUDGED)).n == 100


def test_queries_of_zeros_are_no_other_queries(tmp_path):
    empty = Q.copy()
    empty[[0, 30]] = 0
    adapter = RetrievalAdapter(cv=None, max_iter=1, score="dot")
    adapter.fit(empty, X, RELEVANCE.subset(LEARNED)).save(tmp_path / "new")
    judged = RELEVANCE.subset(JUDGED)
    assert gate("untouched", tmp_path / "new", empty, X, qrels=judged).n == 100


def test_queries_that_were_learned_from_are_left_out(adapters, tmp_path):
    files = adapters | {"helpful": save_adapter(tmp_path / "h", HELPFUL, np.arange(17, 23))}
    pair = files["plain"], files["helpful"]
    found = gate_searches(*pair, np.arange(10, 120), leave_out_learned=True)
    alone = gate_searches(*pair, JUDGED[3:])
    assert (found.n, found.before, found.after) == (97, alone.before, alone.after)
    text = "A version was learned from 13 queries, which are left out."
    assert text in [note.text for note in found.notes]
    with pytest.raises(ValueError, match=r"Only 17 queries are left .* give at least 20"):
        gate_searches(*pair, np.arange(10, 40), leave_out_learned=True)


def test_a_file_that_does_not_say_what_it_learned_from(adapters, tmp_path):
    adapter = RetrievalAdapter.load(adapters["plain"])
    adapter.learned_queries_ = adapter.learned_documents_ = np.empty(0, dtype=np.int64)
    adapter.save(tmp_path / "unknown")
    found = gate_searches(tmp_path / "unknown", adapters["helpful"])
    notes = [note.text for note in found.notes]
    assert "It is not known which queries the old version learned from." in notes
    assert found.outcome == "better"


RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(300, 5))
SIGNAL = ROWS[:, 0] + 0.3 * RNG.normal(size=300)
OLD, NEW = np.eye(5), np.diag([1.0, 0.2, 0.2, 0.2, 0.2])


@pytest.fixture
def metrics(tmp_path):
    for name, L in (("old", OLD), ("new", NEW)):
        save_learned(Metric(L), tmp_path / name, ROWS[:100] + 10)
    return tmp_path / "old", tmp_path / "new"


def others(model, L, y):
    """Predict each row from the others."""
    keep = ~np.eye(len(y), dtype=bool)
    mapped = ROWS @ L
    return np.array([model.fit(mapped[k], y[k]).predict(mapped[~k])[0] for k in keep])


def test_errors_of_rows_by_brute_force(metrics):
    y = np.digitize(SIGNAL, [-0.5, 0.5])
    found = gate(*metrics, table=ROWS, label=y, neighbors=3)
    for L, figure in ((OLD, found.before), (NEW, found.after)):
        predicted = others(KNeighborsClassifier(3), L, y)
        # Ties between three classes may go elsewhere.
        assert figure == pytest.approx((predicted != y).mean(), abs=0.03)
    assert (found.measure, found.cases, found.n, found.outcome) == ("error", "rows", 300, "better")
    mirrored = gate(*metrics[::-1], table=ROWS, label=y, neighbors=3)
    assert (mirrored.outcome, mirrored.harm) == ("worse", pytest.approx(found.probability))


def test_numbers_by_brute_force(metrics):
    found = gate(*metrics, table=ROWS, label=SIGNAL, numbers=True, neighbors=4)
    for L, figure in ((OLD, found.before), (NEW, found.after)):
        assert figure == pytest.approx(r2_score(SIGNAL, others(KNeighborsRegressor(4), L, SIGNAL)))
    assert (found.measure, found.outcome) == ("R²", "better")


def test_pairs_and_triplets_by_brute_force(metrics):
    index = RNG.integers(300, size=(400, 3))
    index = index[(np.diff(np.sort(index, axis=1), axis=1) > 0).all(axis=1)]
    apart = np.abs(SIGNAL[index[:, :1]] - SIGNAL[index[:, 1:]])
    similar = apart[:, 0] < 0.5
    found = gate(*metrics, table=ROWS, pairs=Pairs(index[:, :2], similar))
    for L, figure in ((OLD, found.before), (NEW, found.after)):
        d = np.linalg.norm((ROWS[index[:, 0]] - ROWS[index[:, 1]]) @ L, axis=1)
        assert figure == pytest.approx(roc_auc_score(similar, -d))
    assert (found.measure, found.cases, found.outcome) == ("AUC", "pairs", "better")
    nearer = np.where((apart[:, 0] < apart[:, 1])[:, None], index, index[:, [0, 2, 1]])
    found = gate(*metrics, table=ROWS, triplets=Triplets(nearer))
    d = [np.linalg.norm((ROWS[nearer[:, 0]] - ROWS[nearer[:, i]]) @ NEW, axis=1) for i in (1, 2)]
    assert found.after == pytest.approx((d[0] < d[1]).mean())
    assert (found.cases, found.outcome) == ("triplets", "better")


def test_untouched_rows_have_the_best_plain_distance(metrics):
    y = np.digitize(SIGNAL, [-0.5, 0.5])
    found = gate("untouched", metrics[1], table=ROWS, label=y, neighbors=3)
    plain = evaluate_metric(Metric(NEW), Table("rows", ROWS, y), n_neighbors=3)
    assert found.before == min(each["3-NN error"].value for each in list(plain.values())[1:])
    assert found.outcome == "better"


def test_rows_that_were_learned_from_are_refused(metrics):
    y = np.digitize(SIGNAL, [-0.5, 0.5])
    table = np.concatenate([ROWS, ROWS[:2] + 10])
    with pytest.raises(ValueError, match=r"old was learned from 2 of these 302 rows \(300, 301\)"):
        gate(*metrics, table=table, label=np.r_[y, y[:2]])
    pairs = Pairs([[0, 1], [2, 301], [4, 5]], [True, False, False])
    with pytest.raises(ValueError, match=r"1 of these 6 rows \(301\)"):
        gate(*metrics, table=table, pairs=pairs)
    # Rows that are in no pair take no part.
    assert gate(*metrics, table=table, pairs=Pairs([[0, 1], [2, 3]], [True, False])).n == 2


def test_rows_that_were_learned_from_are_left_out(metrics):
    y = np.digitize(SIGNAL, [-0.5, 0.5])
    table = np.concatenate([ROWS, ROWS[:2] + 10])
    found = gate(*metrics, table=table, label=np.r_[y, y[:2]], leave_out_learned=True)
    alone = gate(*metrics, table=ROWS, label=y)
    assert (found.n, found.before, found.after) == (300, alone.before, alone.after)
    assert [note.text for note in found.notes] == [
        "A version was learned from 2 rows, which are left out."
    ]
    index = np.arange(60).reshape(-1, 2)
    similar = np.arange(30) % 2 == 0
    pairs = Pairs(np.r_[index, [[60, 301], [300, 61]]], np.r_[similar, True, False])
    found = gate(*metrics, table=table, pairs=pairs, leave_out_learned=True)
    alone = gate(*metrics, table=table, pairs=Pairs(index, similar))
    assert (found.n, found.before, found.after) == (30, alone.before, alone.after)
    with pytest.raises(ValueError, match="Only 19 pairs are left"):
        gate(*metrics, table=table, pairs=pairs.take(np.arange(11, 32)), leave_out_learned=True)


def test_rows_that_do_not_differ(metrics):
    found = gate(metrics[0], metrics[0], table=ROWS[:5], label=[0, 1, 0, 1, 1], neighbors=1)
    assert (found.outcome, found.headline) == ("same", "The same: no row differs.")


def test_data_of_the_other_kind(metrics, adapters):
    with pytest.raises(ValueError, match="for adapters, or only table"):
        gate(*metrics)
    with pytest.raises(ValueError, match="not a valid adapter"):
        gate_searches(*metrics)
    with pytest.raises(ValueError, match="not a valid metric"):
        gate(adapters["plain"], adapters["helpful"], table=ROWS, label=SIGNAL > 0)


SEARCHES = ["--queries", "q.npz", "--documents", "d.npz", "--qrels", "qrels.txt"]


@pytest.fixture
def versions(folder):
    """Two adapters and a search that neither has seen."""
    helpful = noisy_searches()[3]
    save_adapter("helpful.safetensors", helpful)
    save_adapter("plain.safetensors", np.ones(len(helpful)))
    np.savez("q.npz", Q=Q)
    np.savez("d.npz", X=X)
    write_qrels("qrels.txt", RELEVANCE.subset(JUDGED))
    write_qrels("seen.txt", RELEVANCE.subset(np.arange(15, 120)))
    return "plain.safetensors", "helpful.safetensors"


@pytest.mark.parametrize(
    ("order", "code", "outcome"),
    [((0, 1), 0, "better"), ((1, 0), 4, "worse"), ((1, 1), 3, "same")],
)
def test_exit_codes(run, document, versions, order, code, outcome):
    pair = [versions[number] for number in order]
    said = run("gate", *pair, *SEARCHES, code=code).stdout
    found = document("gate", *pair, *SEARCHES, code=code)
    assert (found["outcome"], found["n"], found["measure"]) == (outcome, 100, "nDCG@10")
    assert found["headline"] in said.replace("\n", " ")
    assert found["seen"]["n_queries"] + found["unseen"]["n_queries"] == 100


def test_overlap_is_refused(run, versions):
    options = ["--queries", "q.npz", "--documents", "d.npz", "--qrels", "seen.txt"]
    message = run("gate", *versions, *options, code=2).stderr
    assert "plain.safetensors was learned from 5 of these 105 queries (15, 16, 17 and 2" in message
    assert "leave them out (--leave-out-learned), or give other queries" in message
    result = run("gate", *versions, *options, "--leave-out-learned")
    assert result.stdout.startswith("Compared on 100 searches. Better:")
    assert "a version was learned from 5 queries, which are left out" in result.stderr


def test_columns_and_judgements_of_searches(run, fail, versions):
    """Errors name these options."""
    frame = {"id": [str(row) for row in range(120)], "a": Q, "b": -Q}
    pl.DataFrame(frame).write_parquet("q.parquet")
    frame = {"id": [str(row) for row in range(len(X))], "a": X}
    pl.DataFrame(frame).write_parquet("d.parquet")
    with Path("qrels.txt").open("a") as file:
        file.write("900 0 1 1\n")
    options = ["--queries", "q.parquet", "--documents", "d.parquet", "--qrels", "qrels.txt"]
    assert "--vector" in fail("gate", *versions, *options)
    assert "--ignore-unknown" in fail("gate", *versions, *options, "--vector", "a")
    said = run("gate", *versions, *options, "--vector", "a", "--ignore-unknown").stdout
    assert said.startswith("Compared on 100 searches. Better:")


def test_either_searches_or_a_table(fail, versions):
    wanted = "Give --queries, --documents and --qrels for adapters, or only --table."
    assert wanted in fail("gate", *versions)
    assert wanted in fail("gate", *versions, *SEARCHES[:4])
    assert wanted in fail("gate", *versions, *SEARCHES, "--table", "iris.csv")
    assert "not a valid metric" in fail("gate", *versions, "--table", "rows.npy")


@pytest.fixture
def nights(run, folder, rng):
    """Metrics of a messy table: the second learns from more rows, with other words in them."""
    n = 400
    size = rng.normal(size=n)
    frame = pl.DataFrame(
        {
            "size": [f"{100 * each:.3f} cm" for each in size],
            "city": rng.choice(["Ulm", "Rom", "Bonn", "Oslo"], n),
            "noise": 50 * rng.normal(size=n),
            "kind": np.where(size > 0, "large", "small"),
        }
    )
    frame[:20].write_csv("monday.csv")
    frame[20:200].write_csv("tuesday.csv")
    frame[200:].write_csv("gate.csv")
    for name in ("monday", "tuesday"):
        options = ["--label", "kind", "--method", "lda", "--write"]
        run("learn", f"{name}.csv", *options, "--out", f"{name}.safetensors")
    return ["monday.safetensors", "tuesday.safetensors"]


def test_metrics_of_tables(run, document, fail, nights):
    found = document("gate", *nights, "--table", "gate.csv", "--label", "kind", code=None)
    assert (found["cases"], found["n"], found["notes"]) == ("rows", 200, [])
    mirrored = document("gate", *nights[::-1], "--table", "gate.csv", "--label", "kind", code=None)
    assert (found["before"], found["after"]) == (mirrored["after"], mirrored["before"])
    options = ["--table", "gate.csv", "--label", "kind"]
    plain = document("gate", "untouched", nights[1], *options, code=None)
    assert plain["reference"].startswith("Euclidean")
    message = fail("gate", *nights, "--table", "tuesday.csv", "--label", "kind")
    assert "tuesday.safetensors was learned from 180 of these 180 rows (0, 1, 2 and 177" in message


def test_a_file_that_does_not_know_its_rows(run, folder):
    Metric.identity(4).named(["a", "b", "c", "d"]).save("new.safetensors")
    options = ["--table", "iris.csv", "--pairs", "pairs.csv", "--drop", "species,name"]
    result = run("gate", "new.safetensors", "new.safetensors", *options, code=3)
    assert "it is not known which rows the old version learned from" in result.stderr
    assert "Compared on 300 pairs. The same: no pair differs." in result.stdout
