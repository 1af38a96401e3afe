"""Large files: bounded memory, and nothing left behind by Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

_BIG = """
import sys
from pathlib import Path
import numpy as np
from nearfar import Metric
from nearfar.tables.transform import transform_file
source, target = Path(sys.argv[1]), Path(sys.argv[2])
say = lambda *_: print("on", flush=True)
rows = transform_file(Metric(np.eye(5, 50)), source, target, progress=say)
# Not getrusage, whose peak is at least that of the process which started this one.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(rows, status["VmHWM"].split()[0])
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """The same rows 20 times: 200 MB of CSV, 200 MB of Parquet in one row group, and an array."""
    folder = tmp_path_factory.mktemp("big")
    X = np.random.default_rng(0).standard_normal((10_000, 50))
    frame = pl.DataFrame(X, schema=[f"f{i}" for i in range(50)])
    text = io.BytesIO()
    frame.write_csv(text, include_header=False)
    with (folder / "in.csv").open("wb") as file:
        file.write(",".join(frame.columns).encode() + b"\n")
        for _ in range(20):
            file.write(text.getvalue())
    pl.concat([frame] * 50).write_parquet(
        folder / "in.parquet", row_group_size=500_000, compression="uncompressed"
    )
    np.save(folder / "in.npy", np.tile(X, (50, 1)))
    yield folder
    for path in folder.iterdir():
        path.unlink()


def start(big, tmp_path, kind, end):
    return subprocess.Popen(
        [sys.executable, "-c", _BIG, big / f"in.{kind}", tmp_path / f"out.{end}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"POLARS_MAX_THREADS": "4", "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    ("kind", "end", "n"),
    [("csv", "csv", 200_000), ("parquet", "parquet", 500_000), ("npy", "npy", 500_000)],
)
def test_memory_is_bounded(big, tmp_path, kind, end, n):
    with start(big, tmp_path, kind, end) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    rows, peak = out.splitlines()[-1].split()
    assert int(rows) == n
    assert int(peak) < 480_000
    assert (big / f"in.{kind}").stat().st_size > 180_000_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="started as above")
@pytest.mark.parametrize(("kind", "end"), [("csv", "csv"), ("parquet", "parquet")])
def test_control_c_leaves_nothing(big, tmp_path, kind, end):
    with start(big, tmp_path, kind, end) as process:
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    assert not list(tmp_path.iterdir())
