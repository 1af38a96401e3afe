"""Units: factors between those that are known from elsewhere."""

from __future__ import annotations

import pytest

from nearfar.columns import numbers as units
from nearfar.columns.numbers import unit_of


@pytest.mark.parametrize(
    ("one", "many", "ratio"),
    [
        ("km", "m", 1000),
        ("in", "cm", 2.54),
        ("ft", "in", 12),
        ("mile", "yd", 1760),
        ("lb", "oz", 16),
        ("h", "min", 60),
        ("week", "days", 7),
        ("year", "months", 12),
        ("kWh", "kJ", 3600),
        ("kcal", "J", 4184),
        ("bar", "hPa", 1000),
        ("atm", "mmHg", 760),
        ("ha", "m²", 10_000),
        ("m³", "l", 1000),
        ("m/s", "km/h", 3.6),
        ("MW", "mW", 1e9),
        ("GB", "MB", 1000),
        ("%", "‰", 10),
        ("g/l", "mg/dl", 100),
        ("mol/l", "mmol/L", 1000),
        ("kg/l", "kg/m³", 1000),
        ("hp", "W", 745.7),
        ("gal", "l", 3.78541),
        ("acre", "ft²", 43560),
    ],
)
def test_ratios(one, many, ratio):
    large, small = unit_of(one), unit_of(many)
    assert large.dimension == small.dimension
    assert large.factor / small.factor == pytest.approx(ratio, rel=1e-4)


def test_temperatures():
    celsius, fahrenheit = unit_of("°C"), unit_of("°F")
    for degrees, expected in ((212, 100), (32, 0), (-40, -40)):
        same = fahrenheit.factor * (degrees - fahrenheit.origin)
        assert same / celsius.factor + celsius.origin == pytest.approx(expected)


def test_spellings():
    assert unit_of("KG") == unit_of("kgs.") == unit_of("kg")
    assert unit_of("µm") == unit_of("μm")
    assert unit_of("EUR") == unit_of("€") != unit_of("$")
    assert unit_of("mW") != unit_of("MW")
    assert unit_of("rooms") == unit_of("Room")
    assert not unit_of("rooms").known
    assert not unit_of("a").known


def test_every_symbol_is_found_under_its_own_name():
    assert all(unit_of(symbol) == unit for symbol, unit in units._UNITS.items())
    assert all(unit.factor > 0 for unit in units._UNITS.values())
    dimensions = {unit.dimension for unit in units._UNITS.values()}
    assert dimensions == {*units._MEASURES, *units._MONEY}
