"""Units that people write beside numbers, and how those of one dimension are converted.

A word that is not in the lists is a unit of its own, which cannot be converted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Unit(NamedTuple):
    """A unit: `factor * (x - origin)` is x in the first unit of its dimension.

    Attributes
    ----------
    dimension : str
        What it measures; units of one dimension can be converted.
    factor, origin : float
    known : bool
        Whether it is in the lists.
    """

    dimension: str
    factor: float = 1.0
    origin: float = 0.0
    known: bool = True


_MEASURES = {
    "share": "% 1, percent 1, pct 1, ‰ 0.1, ppm 1e-4, ppb 1e-7",
    "length": """m 1, metre 1, meter 1, km 1e3, dm 0.1, cm 0.01, mm 1e-3, μm 1e-6, um 1e-6, nm 1e-9,
        in 0.0254, inch 0.0254, inches 0.0254, " 0.0254, ft 0.3048, foot 0.3048, feet 0.3048,
        ' 0.3048, yd 0.9144, yard 0.9144, mi 1609.344, mile 1609.344""",
    "area": """m² 1, sqm 1, sq m 1, qm 1, cm² 1e-4, mm² 1e-6, km² 1e6, ha 1e4, hectare 1e4,
        ft² 0.09290304, sqft 0.09290304, sq ft 0.09290304, acre 4046.8564224""",
    "volume": """l 1, litre 1, liter 1, ltr 1, dl 0.1, cl 0.01, ml 1e-3, μl 1e-6, hl 100, dm³ 1,
        m³ 1e3, cbm 1e3, cm³ 1e-3, ccm 1e-3, cc 1e-3, gal 3.785411784, gallon 3.785411784""",
    "mass": """kg 1, kgs 1, kilo 1, g 1e-3, gram 1e-3, mg 1e-6, μg 1e-9, ug 1e-9, mcg 1e-9,
        ng 1e-12, t 1e3, ton 1e3, tonne 1e3, lb 0.45359237, lbs 0.45359237, pound 0.45359237,
        oz 0.028349523125""",
    "time": """s 1, sec 1, second 1, ms 1e-3, msec 1e-3, μs 1e-6, ns 1e-9, min 60, mins 60,
        minute 60, h 3600, hr 3600, hrs 3600, hour 3600, d 86400, day 86400, wk 604800, wks 604800,
        week 604800, mo 2629746, mos 2629746, month 2629746, y 31556952, yr 31556952, yrs 31556952,
        year 31556952""",
    "temperature": "°c 1, c 1, degc 1, deg c 1, celsius 1",
    "speed": "m/s 3.6, km/h 1, kmh 1, kph 1, mph 1.609344, kn 1.852, knot 1.852",
    "pressure": """Pa 1, hPa 100, mbar 100, kPa 1e3, MPa 1e6, bar 1e5, psi 6894.757293168361,
        atm 101325, mmHg 133.32236842105263""",
    "energy": """J 1, kJ 1e3, MJ 1e6, GJ 1e9, Wh 3600, kWh 3.6e6, MWh 3.6e9, GWh 3.6e12, cal 4.184,
        kcal 4184""",
    "power": """W 1, mW 1e-3, kW 1e3, MW 1e6, GW 1e9, hp 745.699871582, bhp 745.699871582,
        PS 735.49875""",
    "voltage": "V 1, volt 1, mV 1e-3, μV 1e-6, kV 1e3",
    "current": "A 1, amp 1, mA 1e-3, μA 1e-6, kA 1e3",
    "resistance": "Ω 1, ohm 1, kΩ 1e3, kohm 1e3, MΩ 1e6",
    "frequency": "Hz 1, kHz 1e3, MHz 1e6, GHz 1e9",
    "data": "MB 1, kB 1e-3, GB 1e3, TB 1e6, KiB 1.024e-3, MiB 1.048576, GiB 1073.741824",
    "concentration": "mg/l 1, μg/l 1e-3, ug/l 1e-3, ng/l 1e-6, g/l 1e3, mg/dl 10, g/dl 1e4",
    "molarity": "mmol/l 1, μmol/l 1e-3, umol/l 1e-3, nmol/l 1e-6, mol/l 1e3",
    "content": "mg/kg 1, μg/kg 1e-3, ug/kg 1e-3, g/kg 1e3",
    "density": "g/cm³ 1, g/ml 1, kg/l 1, t/m³ 1, kg/m³ 1e-3",
    "angle": "° 1, deg 1, degree 1",
}
_MONEY = {
    "EUR": "€ EUR euro",
    "USD": "$ US$ USD dollar",
    "GBP": "£ GBP",
    "JPY": "¥ JPY yen",
    "CNY": "CNY RMB yuan",
    "INR": "₹ INR Rs rupee",
    "CHF": "CHF SFr Fr",
    "PLN": "zł PLN",
    "BRL": "R$ BRL",
    "CAD": "CAD C$ CA$",
    "AUD": "AUD A$ AU$",
    "kr": "kr SEK NOK DKK",
    "RUB": "₽ RUB",
    "TRY": "₺ TRY TL",
    "KRW": "₩ KRW",
    "CZK": "Kč CZK",
    "KES": "KES KSh",
}


def _listed() -> dict[str, Unit]:
    found = {}
    for dimension, text in _MEASURES.items():
        for entry in text.split(","):
            symbol, factor = entry.rsplit(maxsplit=1)
            found[symbol.strip()] = Unit(dimension, float(factor))
    fahrenheit = Unit("temperature", 5 / 9, 32.0)
    found |= dict.fromkeys(["°f", "f", "degf", "deg f", "fahrenheit"], fahrenheit)
    for currency, symbols in _MONEY.items():
        found |= dict.fromkeys(symbols.split(), Unit(currency))
    return found


_UNITS = _listed()
_IN_LOWER_CASE = {s.lower(): unit for s, unit in reversed(_UNITS.items()) if s not in ("A", "J")}
CURRENCIES = tuple(symbol for symbols in _MONEY.values() for symbol in symbols.split())
"""Symbols of money, which may stand before a number."""


@lru_cache(1024)
def unit_of(symbol: str) -> Unit:
    """Return a unit by its symbol or name; a word that is not known is a unit of its own.

    Examples
    --------
    >>> from nearfar.columns.units import unit_of
    >>> unit_of("cm")
    Unit(dimension='length', factor=0.01, origin=0.0, known=True)
    >>> unit_of("Hours").dimension, unit_of("rooms") == unit_of("room")
    ('time', True)
    """
    for spelling in (symbol, symbol.rstrip("."), symbol.replace("µ", "μ").rstrip(".")):
        if spelling in _UNITS:
            return _UNITS[spelling]
    word = spelling.lower()
    singular = word[:-1] if len(word) > 3 and word.endswith("s") else word
    for spelling in (word, singular):
        if spelling in _IN_LOWER_CASE:
            return _IN_LOWER_CASE[spelling]
    return Unit(singular, known=False)


def is_money(unit: Unit) -> bool:
    """Tell whether a unit is a currency."""
    return unit.dimension in _MONEY
