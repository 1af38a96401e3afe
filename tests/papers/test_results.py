"""Results: lines, settings, what is missing, and repeated runs."""

from __future__ import annotations

import json

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from papers import checking, results, runner
from papers.task import Folds, Table, Task

TASK = Task("drmetric/T2/Wine/Euclid", "D1", "reference", Table("wine"), Folds(5), 5, "Euclidean")


@pytest.fixture
def folder(tmp_path):
    for run in range(3):
        results.append(*runner.measure([TASK], run)[0], tmp_path)
    return tmp_path


def test_rows_are_prepared_with_one_thread(monkeypatch):
    """Principal components of two threads differ, and fits with fixed steps amplify that."""
    seen: list[int] = []
    plain = Task.rows

    def rows(task: Task, run: int):
        seen.extend(library["num_threads"] for library in threadpool_info())
        return plain(task, run)

    monkeypatch.setattr(Task, "rows", rows)
    with threadpool_limits(2):
        runner.measure([TASK], 0)
    assert set(seen) == {1}


def test_settings_are_written_once(folder):
    (path,) = folder.glob("*/*.jsonl")
    assert path == folder / "drmetric" / "T2.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    assert ["settings" in line for line in lines] == [True, False, False, False]
    assert [line.get("run") for line in lines[1:]] == [0, 1, 2]


def test_runs_are_read_with_their_settings(folder):
    line = list(results.read(folder))[1]
    assert line["cell"] == TASK.cell
    assert line["run"] == 1
    assert line["n"] == [142, 36]
    assert line["value"] == 100 * line["errors"] / 36
    assert results.is_current(line, results.described(TASK))


@pytest.mark.parametrize("cut", [1, 30, 100])
def test_a_line_that_was_cut_off_loses_that_line_only(folder, cut):
    (path,) = folder.glob("*/*.jsonl")
    path.write_text(path.read_text()[:-cut])
    assert [line["run"] for line in results.read(folder)] in ([0, 1], [0, 1, 2])
    results.append(*runner.measure([TASK], 4)[0], folder)
    assert [line["run"] for line in results.read(folder)][-1] == 4
    assert len(list(results.read(folder))) == (4 if cut == 1 else 3)


def test_missing_skips_what_is_stored(folder):
    assert [run for _, run in runner.missing([TASK], folder)] == [3, 4]
    other = Task(**{**TASK.__dict__, "n_neighbors": 1})
    assert [run for _, run in runner.missing([other], folder)] == [0, 1, 2, 3, 4]


def test_other_code_makes_a_result_stale(folder, monkeypatch):
    line = next(results.read(folder))
    monkeypatch.setattr(results, "code_digest", lambda method, chooses: "other")
    assert not results.is_current(line, results.described(TASK))
    assert len(runner.missing([TASK], folder)) == 5


def test_code_that_gives_the_same_results_keeps_them(folder, monkeypatch):
    line = next(results.read(folder))
    monkeypatch.setattr(results, "code_digest", lambda method, chooses: "other")
    monkeypatch.setattr(results, "same_code", lambda: frozenset([(line["code"], "other")]))
    today = results.described(TASK)
    assert results.is_current(line, today)
    assert not results.is_current(line | {"k": 99}, today)
    assert not results.is_current(line | {"code": "older"}, today)


def test_confirm_records_code_only_if_repeated_runs_agree(folder, tmp_path, monkeypatch):
    record = tmp_path / "same_code.jsonl"
    lines = list(results.read(folder))
    monkeypatch.setattr(results, "SAME_CODE", record)
    monkeypatch.setattr(results, "read", lambda: iter(lines))
    monkeypatch.setattr(results, "same_code", frozenset)
    monkeypatch.setattr(checking, "tasks", lambda: [TASK])
    monkeypatch.setattr(results, "code_digest", lambda method, chooses: "other")
    wrong = [line | {"value": line["value"] + 1} for line in lines]
    monkeypatch.setattr(results, "read", lambda: iter(wrong))
    assert not checking.confirm(2, lambda _: None)
    assert not record.exists()
    monkeypatch.setattr(results, "read", lambda: iter(lines))
    assert checking.confirm(2, lambda _: None)
    assert json.loads(record.read_text()).items() >= {"new": "other", "runs": 2}.items()


def test_docstrings_imports_and_order_do_not_change_the_digest_of_code(monkeypatch):
    def digest(code: str) -> str:
        monkeypatch.setattr(results, "code_of", lambda method, chooses: code)
        return results.code_digest("any")

    plain = digest("def f():\n    return 1\n")
    assert digest('def f():\n    """Say."""\n    return 1  # one\n') == plain
    assert digest("from a import b\n\ndef f():\n    return 1\n") == plain
    assert digest("A = 1\n\ndef f(): ...\n") == digest("import b\n\ndef f(): ...\n\nA = 1\n")
    assert digest("def f():\n    return 2\n") != plain


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("boostmetric/Fig2/text/100w/Euclid", "boostmetric/Fig2-text.jsonl"),
        ("msnca/text/AT&T 5/5/msNCA", "msnca/text.jsonl"),
        ("drmetric/text time/Corel/DRMetric s", "drmetric/text-time.jsonl"),
    ],
)
def test_names_with_slashes(cell, name, tmp_path):
    assert results.file_of(cell, tmp_path) == tmp_path / name


def test_repeated_runs_agree_and_a_changed_value_is_seen(folder):
    line = next(results.read(folder))
    assert checking.difference(TASK, line) == ""
    row = 100 / line["n"][1]
    assert checking.difference(TASK, line | {"value": line["value"] + row}) == ""
    assert "stored" in checking.difference(TASK, line | {"value": line["value"] + 2 * row})
    assert "split" in checking.difference(TASK, line | {"split": "other"})
    assert "data" in checking.difference(TASK, line | {"data": "other"})


def test_a_check_without_a_current_run_fails(folder, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(checking, "tasks", lambda: iter([TASK]))
    assert checking.repeat(2, 0, said.append, folder)
    assert said == ["2 runs repeated (seed 0), 0 differ; 0 stored are stale."]
    monkeypatch.setattr(checking, "tasks", lambda: iter([]))
    assert not checking.repeat(2, 0, said.append, folder)


@pytest.mark.slow
def test_run_all_stores_every_run(tmp_path):
    said: list[str] = []
    waiting = runner.missing([TASK], tmp_path)[:2]
    assert runner.run_all(waiting, budget=600, n_jobs=1, show=said.append, folder=tmp_path) == 2
    assert [line["run"] for line in results.read(tmp_path)] == [0, 1]


def test_stored_results_are_small_and_complete():
    assert sum(path.stat().st_size for path in results.FOLDER.glob("*/*.jsonl")) < 20e6
    for line in results.read():
        assert 0 <= line["value"] <= 100
        assert {"split", "data", "code", "commit", "versions", "threads", "seconds"} <= set(line)
