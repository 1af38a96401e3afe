"""Three tables that were written before the code that reads them."""

from __future__ import annotations

import numpy as np

from messy.answers import CATEGORY, NUMBER, Form, Maker, MessyTable

_REMARKS = ["stones on the surface", "roots down to 40", "wet after rain last night", "photo lost"]
_REMARKS += ["taken near the old fence", "slightly salty crust", "see field book page"]


def soils(n: int) -> MessyTable:
    """Soil samples of a field campaign, typed from field books and a laboratory's sheets."""
    m = Maker("soils", "suitability", n)
    rng = m.rng
    m.unused("sample", [f"KE-{1000 + row}-{'ABC'[row % 3]}" for row in range(n)])
    m.words(
        "village",
        m.pick(["Kisumu", "Embu", "Meru", "Nakuru", "Machakos"]),
        spellings={"Embu": ["Embu", "EMBU", "embu "], "Meru": ["Meru", "meru"]},
    )
    m.words("layer", m.pick(["0-20 cm", "20-50 cm", "50-100 cm"]))
    m.dates("sampled", np.datetime64("2021-02-01") + rng.integers(0, 300, n), "%d/%m/%Y")
    clay = rng.uniform(5, 70, n)
    m.numbers("clay", clay, Form("{:.0f}%".format, 0), Form("{:.0f} %".format, 0, 0.2))
    sand = np.clip(90 - clay + rng.normal(0, 8, n), 1, 95)
    m.numbers("sand", sand, Form("{:.1f}".format, 1), gaps=["n.d.", "", "-"], missing=0.05)
    ph = rng.normal(6.2, 0.8, n)
    m.numbers("pH (H2O)", ph, Form("{:.2f}".format), gaps=["nd", "ND"], missing=0.04)
    carbon = rng.lognormal(0.3, 0.7, n)
    m.numbers("org. C", np.maximum(carbon, 0.1), Form(lambda v: "<0.1" if v <= 0.1 else f"{v:.2f}"))
    m.numbers(
        "P",
        np.clip(rng.lognormal(2.5, 1, n), 5, 100),
        Form(lambda v: "<5" if v <= 5 else ">100" if v >= 100 else f"{v:.1f}", 1),
        gaps=["n/a", "not measured"],
    )
    m.numbers("CEC", rng.uniform(2, 40, n), Form("{:.1f} cmol/kg".format, 1))
    m.numbers("bulk density", rng.normal(1.35, 0.12, n), Form("{:.2f} g/cm3".format))
    height = rng.uniform(300, 2400, n)
    m.numbers(
        "elevation", height, Form("{:,.0f} m".format, 0), Form("{:.2f} km".format, 2, 0.2, 1000.0)
    )
    depth = rng.uniform(0.3, 9, n)
    m.numbers(
        "depth to rock", depth, Form("{:.2f} m".format), Form("{:.0f} cm".format, 0, 0.4, 0.01)
    )
    m.numbers("slope", rng.gamma(2, 4, n), Form("{:.0f}°".format, 0))
    m.numbers("water potential", -rng.gamma(2, 20, n), Form(lambda v: f"({-v:.1f})", 1))
    m.words("horizon", m.pick(["Ap", "A", "Bt", "Bw", "C"]))
    textures = m.pick(["clay", "clay loam", "sandy loam", "loam", "silt loam"])
    m.words("texture", textures, gaps=["?"], missing=0.02)
    codes = [f"{code:05d}" for code in rng.choice([501, 502, 1210, 90210, 44, 7], n)]
    m.add("map unit", codes, CATEGORY, codes)
    m.words("irrigated", m.pick(["yes", "no"]), spellings={"yes": ["yes", "Y"], "no": ["no", "N"]})
    m.unused("remarks", [f"{rng.choice(_REMARKS)} {row}" for row in range(n)])
    m.unused("lab", ["ICRAF Nairobi"] * n)
    return m.finish(clay / 20 + carbon + ph, ["poor", "medium", "good"], unlabelled=0.02)


def hospital_visits(n: int) -> MessyTable:
    """Visits to an emergency department, exported from a hospital's system."""
    m = Maker("hospital visits", "triage", n)
    rng = m.rng
    m.unused("MRN", [f"{number:08d}" for number in rng.choice(10**7, n, replace=False)])
    months = np.round(rng.uniform(4, 1140, n))
    months = np.where(months < 24, months, 12 * (months // 12))
    m.add("age", [f"{k:.0f} mo" if k < 24 else f"{k / 12:.0f} y" for k in months], NUMBER, months)
    m.words(
        "sex",
        m.pick(["F", "M"]),
        spellings={"F": ["F", "f"], "M": ["M", "m"]},
        gaps=["unknown"],
        missing=0.01,
    )
    minutes = rng.integers(0, 500_000, n).astype("timedelta64[m]")
    m.dates("arrival", np.datetime64("2023-01-01T00:00") + minutes, "%m/%d/%Y %H:%M")
    m.numbers(
        "weight",
        rng.normal(74, 16, n),
        Form("{:.1f} kg".format, 1),
        Form("{:.0f} lb".format, 0, 0.25, 0.45359237),
        gaps=["", "refused"],
    )
    _add_heights(m)
    fever = rng.normal(37.4, 0.8, n)
    m.numbers("temp", fever, Form("{:.1f} C".format, 1), gaps=["--"])
    systolic = np.round(rng.normal(132, 18, n))
    diastolic = np.round(0.6 * systolic + rng.normal(0, 6, n))
    pressures = [f"{s:.0f}/{d:.0f}" for s, d in zip(systolic, diastolic, strict=True)]
    m.add("BP", pressures, NUMBER, np.column_stack([systolic, diastolic]))
    rate = rng.normal(88, 17, n)
    m.numbers("HR", rate, Form("{:.0f} bpm".format, 0), gaps=["N/A", ""])
    m.numbers("SpO2", np.clip(rng.normal(96, 2.5, n), 80, 100), Form("{:.0f}%".format, 0))
    m.numbers(
        "CRP",
        np.maximum(rng.lognormal(2, 1.3, n), 0.6),
        Form(lambda v: "<0.6" if v <= 0.6 else f"{v:.1f}", 1),
        gaps=["pending", "haemolysed", ""],
        missing=0.15,
    )
    m.numbers("glucose", rng.normal(6.4, 1.7, n), Form("{:.1f} mmol/L".format, 1))
    m.numbers("WBC", rng.gamma(6, 1500, n), Form(lambda v: f"{v / 1000:.1f}K", -2))
    lactate = rng.gamma(2, 0.9, n)
    m.numbers("lactate", lactate, Form("{:.1f}".format, 1), gaps=["#N/A", "NULL"], missing=0.3)
    m.numbers("pain", rng.integers(0, 11, n), Form("{:.0f}/10".format, 0), gaps=["sleeping"])
    m.words("arrived by", m.pick(["ambulance", "walk-in", "police", "helicopter"], [5, 9, 1, 0.2]))
    m.words("insurance", m.pick(["AOK", "TK", "private", "none"], [5, 4, 2, 1]))
    m.words("ward", m.pick([f"{number:02d}" for number in range(1, 13)]))
    m.words("smoker", m.pick(["never", "former", "current"]), gaps=["?"], missing=0.05)
    m.words("pregnant", m.pick(["0", "1"], [20, 1]))
    hours = rng.gamma(1.5, 30, n)
    m.numbers("stay", hours, Form("{:.0f} h".format, 0), Form("{:.1f} d".format, 1, 0.4, 24.0))
    since = zip(m.pick(["chest", "back", "head"]), m.pick(["hours", "days"]), strict=True)
    texts = [f"{what} pain since {row} {unit}, worse at night" for row, (what, unit) in
             enumerate(since)]  # fmt: skip
    m.unused("complaint", texts)
    return m.finish(rate / 17 + fever, ["green", "yellow", "red"], unlabelled=0.01)


def _add_heights(m: Maker) -> None:
    height = np.round(m.rng.normal(168, 10, m.n))
    inches = np.round(height / 2.54)
    imperial = m.rng.random(m.n) < 0.2
    cells = [
        f"{i // 12:.0f}'{i % 12:.0f}\"" if feet else f"{h:.0f} cm"
        for h, i, feet in zip(height, inches, imperial, strict=True)
    ]
    m.add("height", cells, NUMBER, np.where(imperial, 2.54 * inches, height))


def used_cars(n: int) -> MessyTable:
    """Advertisements of used cars, collected from a web site."""
    m = Maker("used cars", "sold within", n)
    rng = m.rng
    makes = m.pick(["BMW", "Ford", "Opel", "Renault", "Škoda", "VW"])
    titles = [f"{make} Nr. {row}, scheckheftgepflegt, 1. Hand" for row, make in enumerate(makes)]
    m.unused("title", titles)
    m.words("make", makes, spellings={"BMW": ["BMW", "Bmw"], "VW": ["VW", "vw"]})
    price = np.round(rng.lognormal(9.3, 0.6, n), -1)
    m.numbers(
        "price",
        price,
        Form("€{:,.0f}".format, -1),
        Form("€ {:,.0f}".format, -1, 0.3),
        Form("{:,.0f} €".format, -1, 0.1),
        Form(lambda v: f"€{v / 1000:g}k", -1, 0.05),
        gaps=["on request", "price on request"],
    )
    mileage = rng.uniform(2, 260, n) * 1000
    m.numbers(
        "mileage",
        mileage,
        Form("{:,.0f} km".format, -3),
        Form(lambda v: f"{v / 1000:.0f}k km", -3, 0.2),
        gaps=["", "n/a"],
    )
    months = np.datetime64("2004-01") + rng.integers(0, 230, n).astype("timedelta64[M]")
    m.dates("first registration", months, "%m/%Y")
    kilowatts = rng.uniform(45, 240, n)
    m.numbers(
        "power",
        kilowatts,
        Form("{:.0f} kW".format, 0),
        Form("{:.0f} PS".format, 0, 0.35, 0.73549875),
    )
    volumes = rng.choice([999, 1198, 1395, 1598, 1968, 1998, 2993], n)
    m.numbers("displacement", volumes, Form("{:,.0f} cc".format, 0))
    fuels = m.pick(["petrol", "diesel", "hybrid", "electric"], [5, 4, 1, 1])
    two = {"petrol": ["petrol", "Petrol"], "diesel": ["diesel", "Diesel"]}
    m.words("fuel", fuels, spellings=two)
    m.words("gearbox", m.pick(["manual", "automatic"]), gaps=["", "-"], missing=0.02)
    m.words("doors", m.pick(["2/3", "4/5", "6/7"], [2, 7, 1]))
    litres = rng.normal(6.1, 1.3, n)
    form = Form("{:.1f} l/100 km".format, 1)
    m.numbers("consumption", litres, form, gaps=["unknown"], missing=0.2)
    m.numbers("CO2", rng.normal(140, 25, n), Form("{:.0f} g/km (comb.)".format, 0), missing=0.2)
    m.numbers("owners", rng.integers(1, 5, n), Form(lambda v: "4+" if v == 4 else f"{v:.0f}", 0))
    m.words("colour", m.pick(["black", "silver", "white", "blue", "red", "green"]))
    m.words("accident-free", m.pick(["yes", "no"], [6, 1]), gaps=["not stated"], missing=0.1)
    flags = ["x" if flag else "" for flag in rng.random(n) < 0.3]
    m.add("air con", flags, CATEGORY, flags)
    m.unused("VIN", [f"W{number:016d}" for number in rng.integers(10**16, size=n)])
    m.words("postcode", m.pick(["01067", "04109", "10115", "20095", "50667", "80331"]))
    stars = np.round(rng.uniform(2, 10, n)) / 2
    m.numbers("rating", stars, Form("{:.1f} stars".format, 1), gaps=["no rating yet"], missing=0.15)
    m.words("seller", m.pick(["dealer", "private"]))
    m.unused("currency", ["EUR"] * n)
    return m.finish(-np.log(price) - mileage / 1e5, ["a week", "a month", "longer"])
