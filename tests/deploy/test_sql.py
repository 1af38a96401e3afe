"""Mapped vectors, distances and order in the databases are the metric's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pytest

from deploy.conftest import METRICS, WIDTH
from nearfar import Metric, Relevance, RetrievalAdapter
from nearfar.neighbors import kneighbors
from nearfar.search.cutoff import Cutoff

K = 10
TABLE, QUOTED = 'a "table"', '"a ""table"""'
NAMES = [f"x{i}" for i in range(WIDTH)]


class Duck:
    dialect, vector, parameter = "duckdb", f"FLOAT[{WIDTH}]", "$query"

    def __init__(self):
        self.connection = duckdb.connect()

    def run(self, statement, query=None):
        values = {} if query is None else {"query": query.tolist()}
        found = self.connection.execute(statement, values)
        return found.fetchall()

    def fill(self, X):
        numbers = ", ".join(f"{name} DOUBLE" for name in NAMES)
        self.run(f'CREATE TABLE {QUOTED} (id INTEGER, "v v" {self.vector}, {numbers})')
        marks = ", ".join("?" * (WIDTH + 2))
        values = [[i, row.tolist(), *row.tolist()] for i, row in enumerate(X)]
        self.connection.executemany(f"INSERT INTO {QUOTED} VALUES ({marks})", values)


class Postgres:
    dialect, vector, parameter = "pgvector", f"vector({WIDTH})", "%(query)s::vector"

    def __init__(self, socket):
        self.connection = psycopg.connect(
            host=socket, user="postgres", dbname="postgres", autocommit=True
        )
        self.run(f"DROP TABLE IF EXISTS {QUOTED}")
        self.run("CREATE EXTENSION IF NOT EXISTS vector")

    def run(self, statement, query=None):
        values = None if query is None else {"query": str(query.tolist())}
        cursor = self.connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def fill(self, X):
        numbers = ", ".join(f"{name} real" for name in NAMES)
        self.run(f'CREATE TABLE {QUOTED} (id integer, "v v" {self.vector}, {numbers})')
        marks = ", ".join(["%s"] * (WIDTH + 2))
        with self.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {QUOTED} VALUES ({marks})",
                [[i, str(row.tolist()), *row.tolist()] for i, row in enumerate(X)],
            )


def programs():
    """Return the folder of PostgreSQL's programs, if pgvector is installed."""
    controls = sorted(Path("/usr/share/postgresql").glob("*/extension/vector.control"))
    if controls:
        return Path("/usr/lib/postgresql") / controls[-1].parts[4] / "bin"
    found = shutil.which("pg_config")
    if found is None:
        return None
    shared = subprocess.check_output([found, "--sharedir"], text=True).strip()
    folder = subprocess.check_output([found, "--bindir"], text=True).strip()
    return Path(folder) if (Path(shared) / "extension/vector.control").exists() else None


@pytest.fixture(scope="module")
def socket(tmp_path_factory):
    """Start a PostgreSQL server of our own, without a port."""
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL with pgvector is not installed; .ci/pgvector builds it")
    # The path of a socket is at most 107 characters long.
    cluster = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    owner = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root.
        shutil.chown(cluster, "postgres")
        owner = {"user": "postgres", "group": "postgres", "extra_groups": []}

    def call(*command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **owner)

    data = cluster / "data"
    call(folder / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
    options = f"-c listen_addresses= -c unix_socket_directories={cluster} -c fsync=off"
    log = cluster / "log"
    call(folder / "pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")
    yield str(cluster)
    call(folder / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    shutil.rmtree(cluster)


@pytest.fixture(params=["duckdb", pytest.param("pgvector", marks=pytest.mark.services)])
def database(request, rows):
    found = Duck() if request.param == "duckdb" else Postgres(request.getfixturevalue("socket"))
    found.fill(rows[:300])
    yield found
    found.connection.close()


@pytest.fixture(params=[*METRICS, "pieces", "pieces of unit rows"])
def metric(request, bent_metrics):
    return (METRICS | bent_metrics)[request.param]


def numbers(vector):
    return np.fromstring(vector[1:-1], sep=",") if isinstance(vector, str) else np.array(vector)


def test_mapped_vectors(database, metric, rows):
    sql = metric.to_sql("v v", dialect=database.dialect)
    found = database.run(f"SELECT {sql.mapped} FROM {QUOTED} ORDER BY id")
    expected = metric.transform(rows[:300])
    scale = np.abs(expected).max()
    np.testing.assert_allclose([numbers(row[0]) for row in found], expected, atol=1e-5 * scale)


@pytest.mark.parametrize("stored", [False, True])
def test_order_and_distances(database, metric, rows, queries, stored):
    sql = metric.to_sql("v v", dialect=database.dialect)
    if stored:
        database.run(sql.add_column(TABLE, "mapped"))
    distance = sql.distance(database.parameter, stored="mapped" if stored else None)
    statement = f"SELECT id, {distance} AS d FROM {QUOTED} ORDER BY d LIMIT {K}"
    for query in queries[:5]:
        found = database.run(statement, query)
        expected, indices = kneighbors(metric, rows[:300], query[None], n_neighbors=K)
        np.testing.assert_allclose([row[1] for row in found], expected[0], rtol=1e-4)
        assert [row[0] for row in found] == indices[0].tolist()


def test_columns_of_numbers(database, metric, rows):
    named = metric.named(NAMES)
    for sql in (
        named.to_sql(dialect=database.dialect),
        metric.to_sql(NAMES, dialect=database.dialect),
    ):
        found = database.run(f"SELECT {sql.mapped} FROM {QUOTED} ORDER BY id LIMIT 5")
        expected = metric.transform(rows[:5])
        np.testing.assert_allclose([numbers(row[0]) for row in found], expected, atol=1e-4)


def test_missing_vectors_stay_missing(database, metric, queries):
    database.run(f'UPDATE {QUOTED} SET "v v" = NULL WHERE id < 3')
    sql = metric.to_sql("v v", dialect=database.dialect)
    database.run(sql.add_column(TABLE, "mapped"))
    distance = sql.distance(database.parameter, stored="mapped")
    found = database.run(f"SELECT id FROM {QUOTED} WHERE ({distance}) IS NULL", queries[0])
    assert sorted(row[0] for row in found) == [0, 1, 2]


@pytest.mark.services
def test_pgvector_indexes_new_rows(socket, rows, queries):
    database = Postgres(socket)
    database.fill(rows[:200])
    metric = Metric.identity(WIDTH)
    sql = metric.to_sql("v v", dialect="pgvector")
    database.run(sql.add_column(TABLE, "mapped"))
    database.run(f"CREATE INDEX ON {QUOTED} USING hnsw (mapped vector_l2_ops)")
    database.run(f'INSERT INTO {QUOTED} (id, "v v") VALUES (999, %(query)s)', queries[0])
    database.run("SET enable_seqscan = off")
    distance = sql.distance(database.parameter, stored="mapped")
    statement = f"SELECT id FROM {QUOTED} ORDER BY {distance} LIMIT 1"
    assert "Index Scan" in str(database.run(f"EXPLAIN {statement}", queries[0]))
    assert database.run(statement, queries[0]) == [(999,)]
    database.connection.close()


@pytest.mark.parametrize("score", ["dot", "cosine"])
def test_searches_with_an_adapter(database, rows, queries, score):
    relevance = Relevance(range(20), range(20))
    adapter = RetrievalAdapter(score=score, cv=None, max_iter=2)
    adapter.fit(queries[:20], rows[:300], relevance)
    order = adapter.to_sql("v v", dialect=database.dialect).order(database.parameter)
    statement = f"SELECT id FROM {QUOTED} ORDER BY {order} LIMIT {K}"
    scores = adapter.transform_queries(queries[:5]) @ adapter.transform_documents(rows[:300]).T
    if (database.dialect, score) == ("pgvector", "cosine"):
        scores[:, 7] = -np.inf  # A row of zeros comes last.
    for query, of_documents in zip(queries[:5], scores, strict=True):
        found = [row[0] for row in database.run(statement, query)]
        assert len(set(found)) == K
        # Databases have float32: documents that are as good may be in another order.
        np.testing.assert_allclose(of_documents[found], np.sort(of_documents)[::-1][:K], rtol=1e-5)


@pytest.mark.parametrize("score", ["dot", "cosine"])
def test_a_cutoff_is_that_of_the_adapter(database, rows, queries, score):
    adapter = RetrievalAdapter(score=score, cv=None, max_iter=2)
    adapter.fit(queries[:20], rows[:300], Relevance(range(20), range(20)))
    scores = adapter.transform_queries(queries[:5]) @ adapter.transform_documents(rows[:300]).T
    # Half between two scores, as databases have float32.
    high = np.sort(scores[0])[::-1]
    adapter.cutoff_ = Cutoff(
        float(high[11] + high[12]) / 2, "recall>=0.5", 0.6, 0.5, 20.0, 0.95, 300, {}, {}
    )
    sql = adapter.to_sql("v v", dialect=database.dialect)
    statement = sql.statements(TABLE, "nearfar").replace(
        sql.queries._dialect.parameter, database.parameter
    )
    found = [row[0] for row in database.run(statement, queries[0])]
    assert set(found) == set(np.argsort(-scores[0])[:12])
    expression = f"SELECT id, {sql.score(database.parameter)} FROM {QUOTED}"
    for row, value in database.run(expression, queries[0]):
        assert value == pytest.approx(scores[0, row], rel=1e-4, abs=1e-5)


def test_errors():
    metric = Metric.identity(3)
    with pytest.raises(ValueError, match=r"dialect .* 'mysql'"):
        metric.to_sql("v", dialect="mysql")
    with pytest.raises(ValueError, match="no feature names; name the column of vectors"):
        metric.to_sql()
    with pytest.raises(ValueError, match="or 3 columns of numbers; got 2 names"):
        metric.to_sql(["a", "b"])
    with pytest.raises(ValueError, match="not a name of a column"):
        _ = metric.to_sql("").mapped


@pytest.mark.parametrize("dialect", ["duckdb", "pgvector"])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028"])
def test_names_of_several_lines_stay_in_the_comment(dialect, end):
    sql = Metric(np.eye(2)).to_sql(["a", "b"], dialect=dialect)
    text = sql.statements("h", f"n{end}DROP TABLE t; --")
    comment = text[text.index("-- Nearest") :].splitlines()
    assert len(comment) > 2
    assert all(line.startswith("-- ") for line in comment)


def test_trees_name_what_to_do(bent_metrics):
    for name in ("forest", "all"):
        with pytest.raises(ValueError, match=r'AutoMetric\(form="linear"\)'):
            bent_metrics[name].to_sql("v v")
