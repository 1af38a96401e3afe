"""SQL for DuckDB and for PostgreSQL with pgvector: a map as an expression of a vector column.

Each coordinate is an inner product of the column with a row of L. Numbers have all their digits.
DuckDB computes in float64, pgvector in float32. Rows with NULL are mapped to NULL. Columns in
pieces become ramps first, each of them an expression with `least` and `greatest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.deploy.formats import ExportTarget
from nearfar.deploy.linear_map import LinearMap
from nearfar.runtime.atomic_write import atomic_write
from nearfar.typing import Vector


@dataclass(frozen=True, eq=False)
class SqlMap:
    """A metric in SQL.

    Attributes
    ----------
    columns: A column of vectors, or a column of numbers for each feature.
    dialect: "duckdb" or "pgvector".
    """

    linear_map: LinearMap
    columns: str | tuple[str, ...]
    dialect: str

    @property
    def mapped(self) -> str:
        """Expression of the mapped vector of a row."""
        if isinstance(self.columns, str):
            vector = _quoted(self.columns)
            return self._mapped(vector, f"{vector} IS NOT NULL")
        names = [_quoted(name) for name in self.columns]
        is_known = " AND ".join(f"{name} IS NOT NULL" for name in names)
        return self._mapped(self._dialect.vector.format(numbers=", ".join(names)), is_known, names)

    def distance(self, query: str, stored: str | None = None) -> str:
        """Return an expression of the distance between a row and a query.

        Parameters
        ----------
        query: SQL expression of the query's vector, which is not mapped yet, such as ``$1`` or
            a column. It occurs more than once in the result, so a parameter must have a number
            or a name.
        stored: Name of a column with the mapped vectors, as `add_column` makes it. By default,
            rows are mapped as they are read.
        """
        left = self.mapped if stored is None else _quoted(stored)
        right = self._mapped(query, f"{query} IS NOT NULL")
        return self._dialect.distance.format(left=left, right=right)

    def add_column(self, table: str, name: str) -> str:
        """Return a statement that adds a column of mapped vectors to a table.

        PostgreSQL keeps the column up to date and can index it. DuckDB fills it once.
        """
        return self._dialect.add_column.format(
            table=_quoted(table),
            name=_quoted(name),
            mapped=self.mapped,
            width=self.linear_map.n_components,
        )

    def statements(self, table: str | None, mapped: str) -> str:
        """Return the mapped vector as an expression, or statements for a table, as a file."""
        if table is None:
            return f"{self.mapped}\n"
        query = self._dialect.parameter
        order = f"ORDER BY {self.distance(query, stored=mapped)}"
        # A name may have several lines, and each must stay in the comment.
        comment = [f"Nearest first, for the vector {query} of a query:", *order.splitlines()]
        lines = "".join(f"-- {line}\n" for line in comment)
        return f"{self.add_column(table, mapped)};\n\n{lines}"

    @property
    def _dialect(self) -> Dialect:
        return DIALECTS[self.dialect]

    def _mapped(self, vector: str, is_known: str, numbers: Sequence[str] = ()) -> str:
        """Return the mapped vector of an expression of a vector, whose `numbers` may be known."""
        dialect = self._dialect
        length = f"coalesce(nullif({dialect.length.format(vector=vector)}, 0), 1)"
        if self.linear_map.maps:
            numbers = numbers or [
                dialect.number.format(vector=vector, place=j + 1)
                for j in range(self.linear_map.n_features)
            ]
            if self.linear_map.unit_rows:
                numbers = [f"{number} / {length}" for number in numbers]
            ramps = [
                ramp
                for each in self.linear_map.maps
                for ramp in (numbers if each is None else _ramps(each, numbers))
            ]
            vector = dialect.vector.format(numbers=", ".join(ramps))
        products = [
            dialect.product.format(vector=vector, row=_numbers(row), negative=_numbers(-row))
            for row in self.linear_map.L
        ]
        if self.linear_map.unit_rows and not self.linear_map.maps:
            products = [f"({product}) / {length}" for product in products]
        products = [
            f"{product} + {_number(shift)}" if shift else product
            for product, shift in zip(products, self.linear_map.b, strict=True)
        ]
        mapped = dialect.mapped.format(numbers=", ".join(products), width=len(products))
        return f"CASE WHEN {is_known} THEN {mapped} END"


@dataclass(frozen=True, eq=False)
class SqlSearch:
    """A search with an adapter in SQL; documents stay as they are.

    Attributes
    ----------
    queries: The map of queries, on the column of the documents' vectors.
    cosine: Whether documents are compared by cosine, not by inner products.
    cutoff: Documents with a smaller score are no answers.
    """

    queries: SqlMap
    cosine: bool
    cutoff: float | None = None

    def order(self, query: str) -> str:
        """Return an expression that orders documents for a query, smallest for the best.

        Parameters
        ----------
        query: SQL expression of the query's vector, which is not mapped yet, such as ``$1``. It
            occurs more than once in the result, so a parameter must have a number or a name.
        """
        dialect = self.queries._dialect
        order = dialect.cosine if self.cosine else dialect.negative_product
        return order.format(left=self._column, right=self._mapped(query))

    def score(self, query: str) -> str:
        """Return an expression of the score that a cut-off is compared with.

        It is the adapter's, largest for the best. The cosine distance by which pgvector orders is
        not: it does not depend on the length of the mapped query.
        """
        dialect = self.queries._dialect
        score = (
            f"-({dialect.negative_product.format(left=self._column, right=self._mapped(query))})"
        )
        if not self.cosine:
            return score
        return f"{score} / coalesce(nullif({dialect.length.format(vector=self._column)}, 0), 1)"

    @property
    def _column(self) -> str:
        column = self.queries.columns
        assert isinstance(column, str)
        return _quoted(column)

    def _mapped(self, query: str) -> str:
        return self.queries._mapped(query, f"{query} IS NOT NULL")

    def statements(self, table: str | None, mapped: str) -> str:
        """Return the order as an expression, or a search in a table, as a file."""
        query = self.queries._dialect.parameter
        if table is None:
            return f"{self.order(query)}\n"
        search = f"SELECT * FROM {_quoted(table)}"
        if self.cutoff is None:
            what, most = "The ten best documents", " LIMIT 10"
        else:
            what, most = "All documents at or above the cut-off", ""
            search += f" WHERE {self.score(query)} >= {_number(self.cutoff)}"
        return (
            f"-- {what}, for the vector {query} of a query:\n"
            f"{search} ORDER BY {self.order(query)}{most};\n"
        )


def sql_map(linear_map: LinearMap, column: str | Sequence[str] | None, dialect: str) -> SqlMap:
    """Return a map in SQL; `Metric.to_sql` is the public way to call it."""
    if dialect not in DIALECTS:
        names = " or ".join(repr(name) for name in DIALECTS)
        raise ValueError(f"dialect must be {names}; got {dialect!r}.")
    if column is None:
        if linear_map.feature_names is None:
            raise ValueError("The metric has no feature names; name the column of vectors.")
        column = linear_map.feature_names
    columns = column if isinstance(column, str) else tuple(column)
    if not isinstance(columns, str) and len(columns) != linear_map.n_features:
        raise ValueError(
            f"Name a column of vectors, or {linear_map.n_features} columns of numbers; "
            f"got {len(columns)} names."
        )
    return SqlMap(linear_map, columns, dialect)


@dataclass(frozen=True)
class Dialect:
    """How a database writes vectors, as texts to be formatted.

    Attributes
    ----------
    parameter: A parameter of a prepared statement.
    vector: A vector of `numbers`.
    mapped: A vector of `numbers` of fixed `width`, which can be indexed.
    product: Inner product of a `vector` and a `row` of L, or its `negative`.
    length: Length of a `vector`.
    number: The number at a `place` of a `vector`, counted from one.
    distance: Euclidean distance of the vectors `left` and `right`, as indexes know it.
    negative_product, cosine: What orders vectors `left` by their inner product with
        `right`, or by their cosine.
    add_column: Adds a column `name` of vectors of `width`, the values of `mapped`, to a
        `table`.
    """

    parameter: str
    vector: str
    mapped: str
    product: str
    length: str
    number: str
    distance: str
    negative_product: str
    cosine: str
    add_column: str


DIALECTS = {
    "duckdb": Dialect(
        parameter="$query",
        vector="[{numbers}]",
        mapped="[{numbers}]",
        product="list_inner_product(({vector})::DOUBLE[], [{row}])",
        length="sqrt(list_inner_product(({vector})::DOUBLE[], ({vector})::DOUBLE[]))",
        number="({vector})[{place}]",
        distance="list_distance({left}, {right})",
        negative_product="-list_inner_product(({left})::DOUBLE[], {right})",
        cosine="-list_inner_product(({left})::DOUBLE[], {right}) / coalesce(nullif("
        "sqrt(list_inner_product(({left})::DOUBLE[], ({left})::DOUBLE[])), 0), 1)",
        add_column="ALTER TABLE {table} ADD COLUMN {name} DOUBLE[];\n"
        "UPDATE {table} SET {name} = {mapped}",
    ),
    "pgvector": Dialect(
        parameter="$1",
        vector="ARRAY[{numbers}]::vector",
        mapped="ARRAY[{numbers}]::vector({width})",
        # pgvector's operator gives the negative inner product.
        product="({vector}) <#> '[{negative}]'::vector",
        length="vector_norm({vector})",
        number="(({vector})::real[])[{place}]",
        distance="{left} <-> {right}",
        negative_product="{left} <#> {right}",
        # Indexes know it. A document of zeros has no cosine here, and comes last.
        cosine="{left} <=> {right}",
        add_column="ALTER TABLE {table} ADD COLUMN {name} vector({width}) "
        "GENERATED ALWAYS AS ({mapped}) STORED",
    ),
}


def _quoted(name: str) -> str:
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is not a name of a column or table.")
    return '"' + name.replace('"', '""') + '"'


def _ramps(pieces: Any, numbers: Sequence[str]) -> list[str]:
    """Return expressions of the ramps of columns; knots are in the units of the columns."""
    ramps = []
    center, scale = pieces.center[pieces.column], pieces.scale[pieces.column]
    ends = (scale * end + center for end in (pieces.low, pieces.high, pieces.zero))
    for j, unit, low, high, zero in zip(pieces.column, scale, *ends, strict=True):
        ramp = numbers[j]
        ramp = f"greatest({ramp}, {_number(low)})" if np.isfinite(low) else ramp
        ramp = f"least({ramp}, {_number(high)})" if np.isfinite(high) else ramp
        ramps.append(f"({ramp} - {_number(zero)}) / {_number(unit)}")
    return ramps


def _numbers(values: Vector) -> str:
    return ",".join(_number(value) for value in values)


def _number(value: float) -> str:
    """Write a number with an exponent, so that it is a float in every dialect."""
    return str(np.format_float_scientific(value, trim="-"))


def _write(
    model: Any,
    path: Path,
    *,
    dialect: str = "duckdb",
    column: str | None = None,
    table: str | None = None,
    mapped: str = "nearfar",
) -> str:
    """Write a metric or an adapter.

    Parameters
    ----------
    dialect: For sql: the database, duckdb or pgvector.
    column: For sql: column of vectors; by default a column for each feature.
    table: For sql: write the statement that adds mapped vectors to this table.
    mapped: For sql: name of the column of mapped vectors.
    """
    text = model.to_sql(column, dialect=dialect).statements(table, mapped)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return f"SQL for {dialect}"


TARGET = ExportTarget(
    "sql",
    f"SQL for {' or '.join(DIALECTS)}",
    _write,
    (".sql",),
)
