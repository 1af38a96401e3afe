"""`nearfar ask` without its page: objects, replays, exports, and what other commands read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from nearfar.ask.ask import read_objects
from nearfar.command import app
from nearfar.frames import TableError
from nearfar.frames.table import picture_path

pytest.importorskip("starlette", reason="starlette is not installed")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)).round(3)
    names = [f"n{row}" for row in range(30)]
    pl.DataFrame({"name": names, **{f"f{c}": X[:, c] for c in range(3)}}).write_csv("objects.csv")
    index = np.array([rng.choice(30, 3, replace=False) for _ in range(3000)])
    apart = np.abs(X[index[:, :1], 0] - X[index[:, 1:], 0])
    index = np.where((apart[:, 0] < apart[:, 1])[:, None], index, index[:, [0, 2, 1]])
    table = {
        c: [names[row] for row in index[:, k]] for k, c in enumerate(["anchor", "near", "far"])
    }
    pl.DataFrame(table).write_csv("answers.csv")
    return tmp_path


def ask(*words):
    return CliRunner().invoke(app, ["ask", *words])


def replay(*words):
    return ask("objects.csv", "--id", "name", "--replay", "answers.csv", "--answers", "60", *words)


def test_replay_export_and_learn(folder):
    done = replay()
    assert done.exit_code == 0, done.output
    assert "judgements.db has 60 answers." in done.output
    assert "nearfar learn objects.csv --id name --triplets judgements.db" in done.output
    assert ask("--export", "judgements.csv").exit_code == 0
    table = pl.read_csv("judgements.csv")
    assert len(table) == 60
    known = {tuple(row) for row in pl.read_csv("answers.csv").iter_rows()}
    assert set(table.select("anchor", "near", "far").iter_rows()) <= known
    assert set(table["origin"]) <= {"chosen", "random", "repeat"}
    words = ["learn", "objects.csv", "--id", "name", "--method", "lsml", "--write"]
    learned = CliRunner().invoke(app, [*words, "--triplets", "judgements.db"])
    assert learned.exit_code == 0, learned.output
    wrong = CliRunner().invoke(app, [*words, "--pairs", "judgements.db"])
    assert "has triplets; give it with --triplets" in wrong.output


def test_what_is_left_out_here_is_left_out_there(folder):
    found = replay("--drop", "f2")
    assert "nearfar learn objects.csv --id name --drop f2 --triplets judgements.db" in found.output


def test_a_file_is_continued(folder):
    replay()
    assert "has 120 answers" in replay().output
    other = ask("objects.csv", "--replay", "answers.csv")
    assert "is about other objects" in other.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Name the objects"),
        (["objects.csv", "--out", "x.csv"], "ends with .db"),
        (["none.csv"], "no file"),
        (["objects.csv", "--id", "nam"], "no column"),
        (["objects.csv", "--person", " "], "write a name"),
        (["objects.csv", "--vectors", "objects.csv"], "for folders"),
        (["--export", "a.csv"], "no file"),
        (["objects.csv", "--export", "a.csv"], "not a file of answers"),
    ],
)
def test_mistakes(folder, words, message):
    done = ask(*words)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_objects(folder):
    found = read_objects("objects.csv", ids="name")
    assert found.X.shape == (30, 3)
    assert [name for name, _ in found.cards[0]] == ["f0", "f1", "f2"]
    without = read_objects("objects.csv", ids="name", text="f0", drop=["f1,f2"])
    assert without.X is None
    assert len(without.texts) == 30


def test_embeddings_with_texts(folder):
    X = np.random.default_rng(0).normal(size=(5, 4))
    table = {"id": list("abcde"), "text": ["a text"] * 5, "vector": X.tolist()}
    pl.DataFrame(table).write_parquet("texts.parquet")
    found = read_objects("texts.parquet", ids="id", text="text")
    np.testing.assert_allclose(found.X, X, rtol=1e-6)
    assert found.texts[0] == "a text"


def test_folder_of_pictures(folder):
    (folder / "pictures").mkdir()
    for row in range(30):
        (folder / "pictures" / f"n{row}.png").write_bytes(b"\x89PNG")
    alone = read_objects("pictures")
    assert alone.X is None
    assert len(alone.pictures) == 30
    vectors = folder / "objects.csv"
    found = read_objects("pictures", ids="name", vectors=vectors)
    assert found.X.shape == (30, 3)
    assert found.pictures[2].name == "n2.png"


@pytest.mark.parametrize("name", ["../a.png", "/etc/a.png", "link.png", "a.txt", "none.png"])
def test_pictures_outside_the_folder_are_refused(tmp_path, name):
    base = tmp_path / "pictures"
    base.mkdir()
    (tmp_path / "a.png").write_bytes(b"")
    (base / "a.txt").write_text("")
    (base / "link.png").symlink_to(tmp_path / "a.png")
    with pytest.raises(TableError, match=r"outside|not a picture|no picture"):
        picture_path(base.resolve(), name)


def test_this_machine_alone():
    is_local = pytest.importorskip("nearfar.ask.server").is_local
    assert all(is_local(host) for host in ("127.0.0.1", "localhost"))
    others = ("0.0.0.0", "::", "::1", "127.0.0.2", "192.0.2.1", "example.org")
    assert not any(is_local(host) for host in others)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1, None),
        (3, "3 people answered, too few to hold out people"),
        (5, "5 people answered; no person is both learned from and tested on."),
    ],
)
def test_people_are_held_out_if_there_are_five(folder, number, message):
    people = [word for n in range(number) for word in ("--person", f"person{n}")]
    assert replay(*people, "--answers", "100").exit_code == 0
    words = ["compare", "objects.csv", "--id", "name", "--method", "lsml"]
    found = CliRunner().invoke(app, [*words, "--triplets", "judgements.db"])
    assert found.exit_code == 0, found.output
    assert (message or "people answered") in found.output or message is None
    assert ("No person of 5" in found.stdout) == (number == 5)
    if message is None:
        assert "people answered" not in found.output
    assert ask("--export", "judgements.csv").exit_code == 0
    again = CliRunner().invoke(app, [*words, "--triplets", "judgements.csv"])
    assert ("No person of 5" in again.stdout) == (number == 5)
