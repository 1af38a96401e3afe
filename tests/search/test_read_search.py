"""Vectors, ids, texts and judgements of searches, from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nearfar.runtime.messages import collecting_notes
from nearfar.search.files import SearchInput, read_search

Q = np.array([[1.0, 0.5], [0.25, 1.0]])
X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", Q)
    np.save("d.npy", X)
    (tmp_path / "rows.qrels").write_text("0 0 2 1\n1 0 1 2\n")
    (tmp_path / "ids.qrels").write_text("a 0 z 1\nb 0 y 2\n")
    return tmp_path


def read(queries: str = "q.npy", documents: str = "d.npy", **options: Any) -> SearchInput:
    return read_search(queries, documents, **{"qrels": Path("rows.qrels"), **options})


def assert_same(found: SearchInput) -> None:
    np.testing.assert_array_equal(found.Q, Q)
    np.testing.assert_array_equal(found.X, X)
    assert found.relevance.document.tolist() == [2, 1]
    assert found.relevance.grade.tolist() == [1, 2]


def test_arrays_are_named_by_row_number(place: Path) -> None:
    found = read()
    assert_same(found)
    assert found.query_names == ["0", "1"]
    assert found.name == "d"


def test_one_npz_file_may_have_both(place: Path) -> None:
    np.savez("all.npz", Q=Q, X=X, query_id=["a", "b"], doc_id=["x", "y", "z"])
    found = read("all.npz", "all.npz", qrels=Path("ids.qrels"))
    assert_same(found)
    assert found.document_ids == ["x", "y", "z"]


def test_npz_files_may_have_only_vectors(place: Path) -> None:
    np.savez("q.npz", X=Q)
    np.savez("d.npz", X=X)
    assert_same(read("q.npz", "d.npz"))


def as_lists(vectors: Any, **others: list[str]) -> pl.DataFrame:
    return pl.DataFrame({**others, "emb": vectors.tolist()})


def test_tables_have_lists_ids_and_texts(place: Path) -> None:
    as_lists(Q, _id=["a", "b"], text=["first", "second"]).write_ndjson("q.jsonl")
    as_lists(X, doc_id=["x", "y", "z"], title=["1", "2", "3"]).write_parquet("d.parquet")
    found = read("q.jsonl", "d.parquet", qrels=Path("ids.qrels"))
    assert_same(found)
    assert found.query_names == ["first", "second"]
    assert found.document_names == ["x", "y", "z"]


def test_tables_may_have_a_column_for_each_number(place: Path) -> None:
    pl.DataFrame({"key": ["a", "b"], "0": Q[:, 0], "1": Q[:, 1]}).write_csv("q.csv")
    pl.DataFrame({"key": ["x", "y", "z"], "0": X[:, 0], "1": X[:, 1]}).write_csv("d.csv")
    assert_same(read("q.csv", "d.csv", qrels=Path("ids.qrels"), ids="key"))


def test_single_precision_stays(place: Path) -> None:
    for name, vectors in (("q", Q), ("d", X)):
        kind = pl.Array(pl.Float32, 2)
        pl.DataFrame({"emb": pl.Series(vectors.tolist(), dtype=kind)}).write_parquet(
            f"{name}.parquet"
        )
    found = read("q.parquet", "d.parquet")
    assert_same(found)
    assert found.Q.dtype == np.float32


@pytest.fixture
def beir(place: Path) -> Path:
    folder = place / "beir"
    (folder / "qrels").mkdir(parents=True)
    for name, ids in (("queries", "ab"), ("corpus", "xyz")):
        lines = [json.dumps({"_id": each, "text": f"about {each}"}) for each in ids]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\tz\t1\nb\ty\t2\n")
    return folder


def test_a_beir_folder_gives_ids_texts_and_judgements(beir: Path) -> None:
    found = read(qrels=None, beir=beir)
    assert_same(found)
    assert found.query_names == ["about a", "about b"]
    assert found.document_ids == ["x", "y", "z"]


def test_vectors_with_ids_need_not_be_in_the_order_of_the_folder(beir: Path) -> None:
    as_lists(X[::-1], id=["z", "y", "x"]).write_parquet("d.parquet")
    found = read("q.npy", "d.parquet", qrels=None, beir=beir)
    assert found.document_names == ["about z", "about y", "about x"]
    assert found.relevance.document.tolist() == [0, 1]


def test_unknown_ids_can_be_left_out(place: Path) -> None:
    path = place / "more.qrels"
    path.write_text("0 0 2 1\n9 0 1 2\n")
    with pytest.raises(ValueError, match=r"line 2 names query '9'.* Use ignore_unknown"):
        read(qrels=path)
    assert len(read(qrels=path, ignore_unknown=True).relevance) == 1


def test_ids_that_hardly_match(place: Path) -> None:
    for name, letter in (("q", "q"), ("d", "d")):
        rows = [f'{{"id": "{letter}{i}", "emb": [{i}, 1]}}\n' for i in range(6)]
        (place / f"{name}.jsonl").write_text("".join(rows))
    (place / "good.qrels").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(4)))
    (place / "swapped.qrels").write_text("".join(f"d{i} 0 q{i} 1\n" for i in range(4)))
    (place / "other.qrels").write_text("".join(f"x{i} 0 d{i} 1\n" for i in range(4)))
    files = {"queries": "q.jsonl", "documents": "d.jsonl"}
    swapped = "0 of 4 ids have one. They are ids of documents: .* swapped"
    for ignore in (False, True):
        for options, message in (
            ({"qrels": Path("swapped.qrels")} | files, swapped),
            ({"queries": "d.jsonl", "documents": "q.jsonl", "qrels": Path("good.qrels")}, swapped),
            (
                {"qrels": Path("other.qrels")} | files,
                r"0 of 4 ids have one. Are the judgements for other files, .* column \(ids\)",
            ),
        ):
            with pytest.raises(ValueError, match=message) as refused:
                read(**options, ignore_unknown=ignore)
            assert "ignore_unknown" not in str(refused.value)
    with pytest.raises(ValueError, match=r"No ids were found in .*npy, .* give a table with"):
        read(qrels=Path("good.qrels"))


def test_queries_that_are_not_used_are_noted(place: Path) -> None:
    (place / "one.qrels").write_text("0 0 2 1\n")
    with collecting_notes() as notes:
        read(qrels=Path("one.qrels"))
    assert "1 of 2 queries has no relevant document and is not learned from" in notes[0].text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qrels": None}, "with qrels=.* or beir="),
        ({"beir": Path()}, "with qrels=.* or beir="),
        ({"qrels": Path("none")}, "There is no file none"),
        ({"queries": "none.npy"}, "There is no file none.npy"),
        ({"queries": "rows.qrels"}, "rows.qrels is not in a supported format"),
        (
            {"queries": "wide.npy"},
            "wide.npy has vectors of length 3 and d.npy of length 2; both must",
        ),
        ({"documents": "nan.npy"}, "Row 1 of nan.npy has missing or infinite values"),
        ({"documents": "flat.npy"}, r"flat.npy must be a 2-d array, a vector per row; got \(3,\)"),
        ({"queries": "other.npz"}, "other.npz has no array Q or X; it has Y"),
        ({"queries": "short.npz"}, r"2 vectors, but its array query_id has shape \(1,\)"),
        ({"queries": "uneven.jsonl"}, "Row 1 of uneven.jsonl .* has 1 numbers in column emb"),
        ({"queries": "two.jsonl"}, "two.jsonl has lists in columns a, b; choose one with vector"),
        ({"queries": "words.csv"}, "words.csv has no vectors"),
        ({"queries": "twice.jsonl"}, "The ids in column id of twice.jsonl are missing or not"),
        ({"queries": "two.jsonl", "vector": "c"}, "two.jsonl has no column 'c'; it has a, b"),
        ({"queries": "twice.jsonl", "vector": "id"}, "Column id of twice.jsonl has no lists"),
    ],
)
def test_mistakes_are_named_with_their_file(
    place: Path, options: dict[str, Any], message: str
) -> None:
    np.save("wide.npy", np.ones((2, 3)))
    np.save("nan.npy", np.where(np.arange(6).reshape(3, 2) == 2, np.nan, 1.0))
    np.save("flat.npy", np.ones(3))
    np.savez("other.npz", Y=Q)
    np.savez("short.npz", Q=Q, query_id=["a"])
    (place / "uneven.jsonl").write_text('{"emb": [1, 2]}\n{"emb": [1]}\n{"emb": [1, 2]}\n')
    (place / "two.jsonl").write_text('{"a": [1, 2], "b": [1]}\n')
    (place / "words.csv").write_text("w\nx\ny\n")
    (place / "twice.jsonl").write_text('{"id": "a", "emb": [1, 2]}\n{"id": "a", "emb": [1, 2]}\n')
    with pytest.raises(ValueError, match=message):
        read(**options)


def test_a_folder_with_other_numbers_of_rows_is_refused(beir: Path) -> None:
    np.save("more.npy", np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"more.npy has 4 rows without ids, but .* has 3"):
        read("q.npy", "more.npy", qrels=None, beir=beir)


def write_named(query: str, document: str) -> None:
    pl.DataFrame({query: ["a", "b"], "u": Q[:, 0], "v": Q[:, 1]}).write_csv("q.csv")
    documents = {document: ["x", "y", "z"], "u": X[:, 0], "v": X[:, 1]}
    pl.DataFrame(documents).write_csv("d.csv")


@pytest.mark.parametrize(
    ("query", "document"), [("qid", "doc"), ("Query_ID", "docid"), ("query", "document")]
)
def test_usual_names_of_ids(place: Path, query: str, document: str) -> None:
    write_named(query, document)
    found = read("q.csv", "d.csv", qrels=Path("ids.qrels"))
    assert_same(found)
    assert found.document_ids == ["x", "y", "z"]


def test_texts_are_not_ids(place: Path) -> None:
    write_named("query", "document")
    texts = pl.Series("query", ["wide seas", "tall trees"])
    pl.read_csv("q.csv").with_columns(texts).write_csv("q.csv")
    assert read("q.csv", "d.npy").query_ids == ["0", "1"]


def test_without_ids_their_column_is_asked_for_first(place: Path) -> None:
    write_named("nummer", "doc_id")
    with pytest.raises(ValueError, match=r"No ids were found in q.csv.*ids.*query_id") as error:
        read("q.csv", "d.csv", qrels=Path("ids.qrels"))
    assert "ignore_unknown" not in str(error.value)
