"""A folder of small files, and a way to run commands in it; for several conftest files."""

from __future__ import annotations

import io
import zipfile
from datetime import datetime, timedelta
from xml.sax.saxutils import escape

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris

from nearfar import BoostMetric, GatedMetric, Metric
from nearfar.command import app

NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="session")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="session")
def files(tmp_path_factory, iris):
    """Iris as tables and arrays, with a metric and constraints."""
    folder = tmp_path_factory.mktemp("files")
    X, y = iris
    table = pl.DataFrame(X, schema=NAMES).with_columns(
        pl.Series("species", np.array(["setosa", "versicolor", "virginica"])[y]),
        pl.Series("name", [f"flower {i}" for i in range(150)]),
    )
    table.write_csv(folder / "iris.csv")
    table.write_csv(folder / "iris.tsv", separator="\t")
    table.write_parquet(folder / "iris.parquet")
    np.save(folder / "rows.npy", X)
    np.save(folder / "labels.npy", y)
    np.savez(folder / "both.npz", X=X, y=y, other=y % 2)
    metric = BoostMetric(max_iter=5).fit(X, y).metric_
    metric.named(NAMES).save(folder / "metric.safetensors")
    parts = [Metric(np.diag([1.0, 2.0, 3.0, 4.0])), Metric(np.diag([4.0, 3.0, 2.0, 1.0]))]
    gated = GatedMetric(parts, [[1.0, 0, 0, 0], [-1.0, 0, 0, 0]], [-5.0, 5.0])
    gated.save(folder / "gated.safetensors")
    i, j = np.random.default_rng(0).integers(150, size=(2, 300))
    i, j = i[i != j], j[i != j]
    pl.DataFrame({"a": i, "b": j, "similar": y[i] == y[j]}).write_csv(folder / "pairs.csv")
    near, far = (i // 50) * 50 + (i + 1) % 50, (i + 50) % 150
    pl.DataFrame({"anchor": i, "near": near, "far": far}).write_csv(folder / "triplets.csv")
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """A working directory with copies of the files."""
    for path in files.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEARFAR_DATA", raising=False)
    return tmp_path


@pytest.fixture
def run(folder):
    def call(*arguments, code=0):
        result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})
        assert code in (None, result.exit_code), result.output
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def fail(run):
    """Run a command that fails, and return the one line that it prints."""

    def call(*arguments):
        result = run(*arguments, code=2)
        assert result.stderr.startswith("nearfar: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    return call


PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DAY_ZERO = datetime(1899, 12, 30)


def excel_cell(value, reference, strings):
    """A cell as Excel writes it: shared texts, dates as numbers of a style."""
    place = f'r="{reference}"'
    if value is None:
        return f'<c {place} s="0"/>'
    if isinstance(value, bool):
        return f'<c {place} t="b"><v>{value:d}</v></c>'
    if isinstance(value, str):
        strings.append(value)
        return f'<c {place} t="s"><v>{len(strings) - 1}</v></c>'
    if isinstance(value, datetime):
        return f'<c {place} s="1"><v>{(value - DAY_ZERO) / timedelta(days=1)!r}</v></c>'
    return f'<c {place} s="0"><v>{value!r}</v></c>'


def excel_parts(rows):
    """The parts of a workbook as Excel writes them; `rows` may be the XML of a sheet's rows."""
    strings = []
    if not isinstance(rows, str):
        lines = []
        for number, row in enumerate(rows, start=1):
            cells = [excel_cell(v, f"{chr(65 + c)}{number}", strings) for c, v in enumerate(row)]
            lines.append(f'<row r="{number}">{"".join(cells)}</row>')
        rows = "".join(lines)
    relations = {"worksheet": "worksheets/sheet1.xml", "sharedStrings": "/xl/sharedStrings.xml"}
    relations["styles"] = "styles.xml"
    links = "".join(
        f'<Relationship Id="rId{number}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(relations.items(), start=1)
    )
    sheets = '<sheets><sheet name="s" sheetId="1" r:id="rId1"/></sheets>'
    texts = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    formats = '<numFmts><numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd"/></numFmts>'
    styles = '<xf numFmtId="0"/><xf numFmtId="165"/>'
    top = '<?xml version="1.0" encoding="UTF-8"?>\n'
    main = f'xmlns="{SHEET}"'
    styles = f"{formats}<cellXfs>{styles}</cellXfs>"
    return {
        "xl/_rels/workbook.xml.rels": f'{top}<Relationships xmlns="{PACKAGE}">{links}'
        "</Relationships>",
        "xl/workbook.xml": f'{top}<workbook {main} xmlns:r="{OFFICE}">{sheets}</workbook>',
        "xl/worksheets/sheet1.xml": f'{top}<worksheet {main}><dimension ref="A1"/>'
        f"<sheetData>{rows}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"{top}<sst {main}>{texts}</sst>",
        "xl/styles.xml": f"{top}<styleSheet {main}>{styles}</styleSheet>",
    }


def zipped(parts):
    """Parts of a workbook as the bytes of its file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()
