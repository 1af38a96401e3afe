"""Comparisons agree with their definitions, whatever the order of the two records."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rapidfuzz.distance import Indel, JaroWinkler

from nearfar.records.comparisons import WHOLE, Comparisons, Field
from nearfar.records.records import Records, plain

NAMES = ["Ann Lee", "Lee, Ann", "Bob Ray-Fox", "Zoë Núñez", None, "Bo"]
BORN = ["1990-03-04", "19900403", "4 Mar 1990", None, "2001-12-31", "2002-01-01"]
WEIGHT = ["1.5 kg", "1500 g", "3 kg", "0 kg", None, "2 kg"]
PHONE = ["+49 228 1234567", "0228/123-4567", "02281234568", None, "555-0100", "5550100"]
ALL = np.array([(i, j) for i in range(6) for j in range(6)])


def people() -> Records:
    return Records.of({"name": NAMES, "born": BORN, "weight": WEIGHT, "phone": PHONE}, "people")


def compared(rivals: bool = False) -> dict[tuple[str, str], np.ndarray]:
    comparisons = Comparisons.fit([people()], rivals)
    X = comparisons.compare(people(), people().take(np.arange(6)), ALL)
    return dict(zip(comparisons.names, X.T, strict=True))


def known(cells: list[str | None]) -> np.ndarray:
    return np.array([cells[i] is not None and cells[j] is not None for i, j in ALL])


def test_fields_are_recognised():
    kinds = {each.name: each.kind for each in Comparisons.fit([people()], rivals=False).fields}
    expected = {"name": "text", "born": "date", "weight": "number", "phone": "code", WHOLE: "text"}
    assert kinds == expected


def test_fields_that_only_one_table_has_are_not_compared():
    other = Records.of({"name": ["Ann"], "age": [3]}, "other")
    assert [each.name for each in Comparisons.fit([people(), other], False).fields] == [
        "name",
        WHOLE,
    ]
    with pytest.raises(ValueError, match="no field with values in common"):
        Comparisons.fit([people(), Records.of({"age": [3]}, "other")], False)


def test_missing_cells_are_counted_and_everything_else_is_nan():
    columns = compared()
    for name, cells in [("name", NAMES), ("born", BORN), ("weight", WEIGHT), ("phone", PHONE)]:
        gaps = [sum(cells[k] is None for k in pair) for pair in ALL]
        np.testing.assert_array_equal(columns[name, "missing"], gaps)
        for (field, way), column in columns.items():
            if field == name and way != "missing":
                assert np.isnan(column[~known(cells)]).all()


def test_letters_agree_with_their_definitions():
    columns = compared()
    for pair, (i, j) in enumerate(ALL):
        if NAMES[i] is None or NAMES[j] is None:
            continue
        a, b = sorted([plain(NAMES[i]), plain(NAMES[j])])
        assert columns["name", "equal"][pair] == (a == b)
        first, order = (columns["name", way][pair] for way in ("first letters", "letters in order"))
        assert first == pytest.approx(JaroWinkler.similarity(a, b))
        assert order == pytest.approx(Indel.normalized_similarity(a, b))
        tokens = [" ".join(sorted(text.split())) for text in (a, b)]
        sort = columns["name", "words in any order"][pair]
        assert sort == pytest.approx(Indel.normalized_similarity(*tokens))


def test_dates_with_and_without_marks_are_compared_by_their_parts():
    columns = compared()

    def of(i: int, j: int) -> list[float]:
        ways = ("year", "month", "day", "swapped", "days apart")
        return [float(columns["born", way][6 * i + j]) for way in ways]

    assert of(0, 2) == [1, 1, 1, 0, 0]
    # 4 March and 3 April.
    assert of(0, 1) == pytest.approx([1, 0, 0, 1, math.log1p(30)])
    assert of(4, 5) == pytest.approx([0, 0, 0, 0, math.log1p(1)])


def test_numbers_are_compared_in_one_unit():
    kilograms = [1.5, 1.5, 3.0, 0.0, np.nan, 2.0]
    column = compared()["weight", "relative difference"]
    for pair, (i, j) in enumerate(ALL):
        a, b = kilograms[i], kilograms[j]
        expected = abs(a - b) / (max(a, b) or 1.0)
        np.testing.assert_allclose(column[pair], expected, atol=1e-12)


def test_cells_that_are_no_numbers_are_compared_as_text_only():
    learned = Field.fit("price", np.array(["1.5", "2", "3"], dtype=object))
    assert learned.kind == "number"
    values = learned.prepare(np.array(["on request", "2"], dtype=object))
    np.testing.assert_array_equal(values["number"], [np.nan, 2.0])
    assert not values["missing"].any()


def test_digits_of_phone_numbers():
    columns = compared()
    assert columns["phone", "end of digits"][1] == 1
    assert columns["phone", "end of digits"][2] == 0
    assert columns["phone", "digits"][6 * 4 + 5] == 1
    assert columns["phone", "equal"][6 * 4 + 5] == 0


def test_codes_and_numbers_in_a_text():
    texts = ["LG LDS4821WW 24 inch", "lg lds4821ww 28", "Speck mb13-pnk-see 2.5", "plain words"]
    table = Records.of({"title": texts}, "products")
    comparisons = Comparisons.fit([table], False)
    pairs = np.array([(0, 1), (0, 2), (0, 3)])
    columns = dict(zip(comparisons.names, comparisons.compare(table, table, pairs).T, strict=True))
    np.testing.assert_allclose(columns["title", "codes: cosine"], [1, 0, np.nan])
    np.testing.assert_allclose(columns["title", "numbers: cosine"], [0, 0, np.nan])


def test_words_are_weighted_by_their_rarity():
    texts = ["red car", "red bus", "red van", "blue car"]
    table = Records.of({"title": texts}, "products")
    comparisons = Comparisons.fit([table], False)
    pairs = np.array([(0, 1), (0, 3)])
    columns = dict(zip(comparisons.names, comparisons.compare(table, table, pairs).T, strict=True))
    weight = {
        word: 1 + math.log(5 / (1 + sum(word in text.split() for text in texts)))
        for word in ("red", "car", "bus", "van", "blue")
    }
    for place, (a, b) in enumerate([(0, 1), (0, 3)]):
        one, two = set(texts[a].split()), set(texts[b].split())

        def total(words: set[str], power: int = 1) -> float:
            return sum(weight[word] ** power for word in words)

        found = {
            way: columns["title", f"words: {way}"][place]
            for way in (
                "cosine",
                "share of the shorter",
                "share of the longer",
                "rarest not shared, least",
                "rarest not shared, most",
            )
        }
        rest = sorted(max(weight[word] for word in words - (one & two)) for words in (one, two))
        shares = sorted((total(one & two) / total(each) for each in (one, two)), reverse=True)
        cosine = total(one & two, 2) / math.sqrt(total(one, 2) * total(two, 2))
        np.testing.assert_allclose(list(found.values()), [cosine, *shares, *rest], rtol=1e-5)


def test_rivals_are_the_most_similar_other_records():
    rng = np.random.default_rng(0)
    words = np.array(["alpha", "beta", "gamma", "delta", "omega", "kappa"])
    tables = [
        Records.of({"title": [" ".join(rng.choice(words, 3)) for _ in range(n)]}, "t")
        for n in (7, 9)
    ]
    comparisons = Comparisons.fit(tables, rivals=True)
    for left, right in (tables, (tables[0], tables[0])):
        pairs = np.array([(i, j) for i in range(len(left)) for j in range(len(right)) if i != j])
        every = np.array([(i, j) for i in range(len(left)) for j in range(len(right))])
        columns = dict(
            zip(comparisons.names, comparisons.compare(left, right, pairs).T, strict=True)
        )
        place = comparisons.names.index((WHOLE, "triples: cosine"))
        C = comparisons.compare(left, right.take(np.arange(len(right))), every)[:, place]
        C = C.reshape(len(left), len(right))
        if right is left:
            np.fill_diagonal(C, 0.0)
        for pair, (i, j) in enumerate(pairs):
            of_i, of_j = np.delete(C[i], j).max(), np.delete(C[:, j], i).max()
            found = [
                columns[WHOLE, f"nearer than {x}"][pair] for x in ("all rivals", "rivals of one")
            ]
            expected = C[i, j] - np.array([max(of_i, of_j), min(of_i, of_j)])
            np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("rivals", [False, True])
def test_the_order_of_pairs_and_of_the_two_records_does_not_matter(rivals):
    comparisons, table = Comparisons.fit([people()], rivals), people()
    pairs = ALL[ALL[:, 0] != ALL[:, 1]]
    X = comparisons.compare(table, table, pairs)
    np.testing.assert_array_equal(comparisons.compare(table, table, pairs[::-1]), X[::-1])
    np.testing.assert_array_equal(comparisons.compare(table, table, pairs[:, ::-1]), X)
    np.testing.assert_array_equal(comparisons.compare(table, table, pairs[:3]), X[:3])


def test_the_columns_are_always_in_the_same_order():
    # Files hold models by column number.
    ways = [way for name, way in Comparisons.fit([people()], True).names if name == WHOLE]
    assert ways[:6] == [
        "missing",
        "equal",
        "letters in order",
        "first letters",
        "words in any order",
        "words of the shorter",
    ]
    tokens = dict.fromkeys(way.split(":")[0] for way in ways[6:-2])
    assert list(tokens) == ["triples", "words", "numbers", "codes"]
    assert ways[-2:] == ["nearer than all rivals", "nearer than rivals of one"]
