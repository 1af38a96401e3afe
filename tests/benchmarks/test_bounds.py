"""Limits, growth and comparison of the benchmark, against what can be computed by hand."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import bounds
from bounds import Amount, How, Size, Time, all_pairs, compared, growth, sizes_around

QUICK = How(width=16, repeats=1, budget=0.1)


def test_limits_add_up():
    need, speed = Amount(flops=6.0, bytes=8.0, exps=3.0), Amount(flops=3.0, bytes=2.0, exps=1.0)
    assert need.seconds(speed) == 2 + 4 + 3
    assert Amount(bytes=1.0).seconds(speed) == 0.5


def test_all_pairs_are_counted():
    n, D = 5, 3
    n_flops = sum(2 for _ in range(n) for _ in range(n) for _ in range(D)) * 2
    assert all_pairs(Size(n, D, 2)) == Amount(flops=n_flops, exps=n * n)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_growth_of_a_power(exponent):
    sizes = np.array([10, 20, 80])
    assert growth(sizes, 3.0 * sizes**exponent) == pytest.approx(exponent, abs=1e-12)


def test_sizes_differ_in_one_number():
    around = sizes_around(Size(100, 8, 4), (0.5, 1, 2))
    assert around["n"] == [Size(50, 8, 4), Size(100, 8, 4), Size(200, 8, 4)]
    assert around["D"] == [Size(100, 4, 4), Size(100, 8, 4), Size(100, 16, 4)]
    assert around["classes"] == [Size(100, 8, 2), Size(100, 8, 4), Size(100, 8, 8)]


def test_data_have_the_size():
    X, y = Size(31, 4, 3).data()
    assert X.shape == (31, 4)
    assert X.dtype == np.float32
    assert np.bincount(y).tolist() == [11, 10, 10]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", bounds.WORK)
def test_work_is_measured(name):
    row = bounds.measure(name, Size(40, 3, 2), QUICK)
    assert row["work"] == name
    assert row["seconds"] > 0
    assert row["multiple"] == pytest.approx(row["seconds"] / row["limit"])
    need = Amount(**row["speed"])
    assert min(need.flops, need.bytes, need.exps) > 0


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Return a function that runs the benchmark on work of a known time, and reads its file."""

    def run(name, *options, seconds=1.0, exponent=1.0):
        def work(size, how):
            return Amount(flops=size.n), lambda: Time(seconds * size.n**exponent, 2 * seconds)

        monkeypatch.setattr(bounds, "WORK", {"work": work})
        monkeypatch.setattr(bounds, "speed", lambda width: Amount(1.0, 1.0, 1.0))
        monkeypatch.setattr(bounds, "commit", lambda: f"commit of {name}")
        out = tmp_path / name
        monkeypatch.setattr(sys, "argv", ["bounds.py", "--toy", "--out", str(out), *options])
        bounds.main()
        return [json.loads(line) for line in out.read_text().splitlines()]

    return run


def test_file_has_run_measurements_and_growth(command):
    first, *rows = command("a", exponent=2.0)
    assert first["what"] == "run"
    assert first["commit"] == "commit of a"
    assert {"python", "numpy", "scipy", "sklearn", "nearfar"} == set(first["versions"])
    assert first["threads"] >= 1
    assert first["machine"]["usable_cores"] >= 1
    exponents = {row["in"]: row["exponent"] for row in rows if row["what"] == "growth"}
    assert exponents == pytest.approx({"n": 2.0, "D": 0.0, "classes": 0.0}, abs=1e-9)
    measured = [row for row in rows if row["what"] == "work"]
    assert [(row["n"], row["D"], row["classes"]) for row in measured] == [
        (150, 8, 3),
        (225, 8, 3),
        (150, 12, 3),
        (150, 8, 4),
    ]
    assert measured[1]["multiple"] == 225.0


def test_two_files_are_compared_without_measuring(command, capsys, monkeypatch, tmp_path):
    command("old", seconds=2.0)
    command("new", seconds=1.0, exponent=2.0)
    monkeypatch.setattr(bounds, "measure", None)
    capsys.readouterr()
    paths = str(tmp_path / "old"), str(tmp_path / "new")
    monkeypatch.setattr(sys, "argv", ["bounds.py", "--against", *paths])
    bounds.main()
    assert capsys.readouterr().out == (
        "commit of ne compared with commit of ol; below 1 is faster\n"
        "\n"
        "                          n    D classes   time    cpu multiple\n"
        "work                    150    8       3  75.00   0.50    75.00\n"
        "work                    225    8       3 112.50   0.50   112.50\n"
        "work                    150   12       3  75.00   0.50    75.00\n"
        "work                    150    8       4  75.00   0.50    75.00\n"
        "\n"
        "exponent                  in    old    new\n"
        "work                       n   1.00   2.00\n"
        "work                       D   0.00   0.00\n"
        "work                 classes   0.00   0.00\n"
    )


def test_only_what_both_files_have_is_compared(command):
    rows = command("old")
    fewer = [row for row in rows if row.get("n") != 225]
    assert " 225 " in compared(rows, rows)
    assert " 225 " not in compared(fewer, rows)
    assert " 225 " not in compared(rows, fewer)


def test_three_files_are_refused(command, capsys):
    with pytest.raises(SystemExit):
        command("a", "--against", "x", "y", "z")
    assert "one file or two" in capsys.readouterr().err


def test_speed_is_that_of_the_arrays(monkeypatch):
    """A machine on which every pass takes two seconds."""
    monkeypatch.setattr(bounds, "shortest", lambda work, repeats: (work(), Time(2.0, 2.0))[1])
    width = 8
    assert bounds.speed(width) == replace(
        Amount(),
        flops=2 * 4 * width * width * width / 2,
        bytes=2 * 4 * (4 * width * width) / 2,
        exps=4 * width * width / 2,
    )
