"""Seven more tables, of other trades."""

from __future__ import annotations

import numpy as np

from messy.answers import CATEGORY, NUMBER, Form, Maker, MessyTable


def _german(value: float, digits: int) -> str:
    """Write a number with points between thousands and a decimal comma."""
    return f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))


def housing_ads(n: int) -> MessyTable:
    """Flats to let, from German advertisements."""
    m = Maker("housing ads", "area", n)
    rng = m.rng
    m.unused("Objekt-Nr.", [f"{rng.integers(10**6):06d}/{row:04d}" for row in range(n)])
    space = rng.gamma(6, 13, n) + 18
    m.numbers(
        "Wohnfläche",
        space,
        Form(lambda v: f"{_german(v, 1)} m²", 1),
        Form("{:.0f} qm".format, 0, 0.3),
    )
    rent = space * rng.normal(12, 2.5, n)
    m.numbers(
        "Kaltmiete",
        rent,
        Form(lambda v: f"{_german(v, 2)} €"),
        Form(lambda v: f"{_german(v, 0)},- €", 0, 0.2),
        gaps=["auf Anfrage", "k.A."],
    )
    m.numbers("Nebenkosten", space * 2.6, Form(lambda v: f"ca. {_german(v, 0)} €", 0), missing=0.1)
    rooms = np.round(space / 14) / 2 + 0.5
    m.numbers("Zimmer", rooms, Form(lambda v: f"{v:g}".replace(".", ","), 1))
    floors = m.pick(["EG", "1. OG", "2. OG", "3. OG", "DG"])
    m.words("Etage", floors)
    m.numbers("Baujahr", rng.integers(1890, 2024, n), Form("{:.0f}".format, 0), gaps=["unbekannt"])
    m.numbers(
        "Energie",
        rng.gamma(8, 15, n),
        Form(lambda v: f"{_german(v, 1)} kWh/(m²·a)", 1),
        gaps=["liegt nicht vor", ""],
        missing=0.2,
    )
    days = np.datetime64("2024-01-01") + rng.integers(0, 240, n)
    m.dates("frei ab", days, "%d.%m.%Y", missing=0.05)
    m.words("Balkon", m.pick(["ja", "nein"]), spellings={"ja": ["ja", "Ja"]})
    m.words("PLZ", m.pick(["01099", "04277", "20357", "50823", "80469"]))
    m.words("Heizung", m.pick(["Fernwärme", "Gas", "Wärmepumpe", "Öl"]), missing=0.08)
    m.numbers("Entfernung", rng.gamma(2, 2.5, n), Form(lambda v: f"{_german(v, 1)} km", 1),
              Form("{:.0f} m".format, -1, 0.4, 0.001))  # fmt: skip
    texts = [f"Helle Wohnung Nr. {row} in ruhiger Lage, frisch renoviert" for row in range(n)]
    m.unused("Beschreibung", texts)
    m.numbers("Kaution", np.round(3 * rent, -1), Form(lambda v: f"{_german(v, 0)} €", -1))
    m.words("Anbieter", m.pick(["privat", "Makler"]))
    return m.finish(rent / space + rng.normal(0, 1, n), ["outskirts", "suburb", "centre"])


def shop_orders(n: int) -> MessyTable:
    """Orders of an American web shop."""
    m = Maker("shop orders", "segment", n)
    rng = m.rng
    m.unused("order", [f"#{100234 + row}" for row in range(n)])
    minutes = rng.integers(0, 400_000, n).astype("timedelta64[m]")
    m.dates("placed", np.datetime64("2023-03-01T00:00") + minutes, "%b %d, %Y %I:%M %p")
    total = rng.lognormal(4, 0.9, n)
    m.numbers("total", total, Form("${:,.2f}".format))
    m.numbers(
        "discount", rng.choice([0, 5, 10, 15, 20], n), Form("-{:.0f}%".format, 0), missing=0.3
    )
    m.numbers(
        "refund", -np.where(rng.random(n) < 0.3, 0.5 * total, 0.0), Form(lambda v: f"(${-v:,.2f})")
    )
    m.numbers("shipping", rng.choice([0, 4.99, 9.99, 24.5], n), Form("{:.2f} USD".format))
    weight = rng.gamma(2, 1.2, n)
    m.numbers(
        "weight", weight, Form("{:.1f} lbs".format, 1), Form("{:.0f} oz".format, 0, 0.4, 1 / 16)
    )
    m.numbers("items", rng.integers(1, 9, n), Form("x{:.0f}".format, 0))
    sizes = [(rng.integers(10, 60), rng.integers(10, 40), rng.integers(2, 20)) for _ in range(n)]
    m.add("box", [f"{a} x {b} x {c} in" for a, b, c in sizes], NUMBER, np.array(sizes, dtype=float))
    m.words(
        "state",
        m.pick(["CA", "NY", "TX", "WA", "FL", "OH"]),
        spellings={"CA": ["CA", "Ca", "ca"], "NY": ["NY", "ny"]},
    )
    m.words("zip", m.pick(["02139", "10001", "94103", "98101", "33101", "44101"]))
    m.unused("e-mail", [f"user{number}@example.com" for number in rng.choice(10**6, n, False)])
    m.words("gift", m.pick(["TRUE", "FALSE"], [1, 6]))
    m.words("coupon", m.pick(["SPRING10", "WELCOME5", "VIP"]), gaps=["none", ""], missing=0.6)
    m.numbers("rating", rng.integers(1, 6, n), Form("{:.0f} out of 5".format, 0), missing=0.4)
    delivered = rng.integers(1, 15, n)
    days = Form(lambda v: "1 day" if v == 1 else f"{v:.0f} days", 0)
    m.numbers("delivery", delivered, days, Form("{:.0f} hours".format, 0, 0.1, 1 / 24))
    m.words("carrier", m.pick(["UPS", "FedEx", "USPS"]))
    m.unused("tracking", [f"1Z{number:012d}" for number in rng.integers(10**12, size=n)])
    m.numbers("views", rng.lognormal(6, 1.5, n), Form(lambda v: f"{v / 1000:.1f}k", -2))
    return m.finish(
        np.log(total) - 0.1 * delivered, ["one-off", "regular", "loyal"], unlabelled=0.03
    )


def sensor_logs(n: int) -> MessyTable:
    """Readings of machines in a factory, with units in the cells and words for faults."""
    m = Maker("sensor logs", "state", n)
    rng = m.rng
    m.unused("seq", [str(4711 + row) for row in range(n)])
    seconds = (60 * np.arange(n) + rng.integers(0, 9, n)).astype("timedelta64[s]")
    m.dates("time", np.datetime64("2024-05-03T06:00:00") + seconds, "%Y-%m-%dT%H:%M:%SZ")
    heat = rng.normal(62, 9, n)
    celsius = Form("{:.1f}°C".format, 1)
    cells = [f"{1.8 * round(v, 1) + 32:.2f} °F" if f else celsius.write(round(v, 1))
             for v, f in zip(heat, rng.random(n) < 0.15, strict=True)]  # fmt: skip
    m.add("bearing", cells, NUMBER, np.round(heat, 1))
    m.numbers("vibration", rng.gamma(3, 0.8, n), Form("{:.2f} mm/s".format), gaps=["ERR", "OVL"])
    m.numbers("pressure", rng.normal(6.1, 0.4, n), Form("{:.2f} bar".format),
              Form("{:.0f} kPa".format, 0, 0.3, 0.01), gaps=["#VALUE!", "NaN"])  # fmt: skip
    m.numbers("current", rng.gamma(5, 700, n), Form("{:.0f} mA".format, 0),
              Form("{:.2f} A".format, 2, 0.5, 1000.0))  # fmt: skip
    leaks = [float(f"{leak:.2e}") for leak in 10 ** rng.uniform(-9, -5, n)]
    m.numbers("leak", leaks, Form("{:.2e}".format, 20), gaps=["<LOD"])
    m.numbers("flow", rng.normal(12.4, 1.1, n), Form("{:.1f} ± 0.3 l/min".format, 1))
    m.numbers("offset", rng.normal(0, 2, n), Form("{:+.2f}".format))
    m.numbers("drift", rng.normal(0, 2, n), Form(lambda v: f"{v:.2f}".replace("-", "\u2212")))
    m.numbers("cycles", rng.uniform(1e3, 9e6, n),
              Form(lambda v: f"{v:,.0f}".replace(",", "\u202f"), 0))  # fmt: skip
    m.numbers("memory", rng.uniform(200, 1800, n), Form("{:.0f} MB".format, 0),
              Form("{:.2f} GB".format, 2, 0.3, 1000.0))  # fmt: skip
    m.numbers("duty", rng.uniform(0, 100, n), Form("{:.0f} %".format, 0), gaps=["---"])
    hours = rng.uniform(0.1, 30, n)
    cells = [f"{int(v)}:{int(60 * (v % 1)):02d}" for v in hours]
    m.add("uptime", cells, NUMBER, np.floor(hours) + np.floor(60 * (hours % 1)) / 60)
    m.words("mode", m.pick(["AUTO", "MAN", "OFF"]), spellings={"AUTO": ["AUTO", "Auto"]})
    m.words("alarm", m.pick(["0", "1"], [9, 1]))
    codes = m.pick([f"E{code:03d}" for code in (0, 7, 12, 110, 404)], [12, 1, 1, 1, 1])
    m.words("code", codes)
    m.unused("firmware", ["v2.4.1"] * n)
    m.words("line", m.pick(["L1", "L2", "L3"]))
    return m.finish(heat + hours, ["fine", "worn", "failing"])


def survey(n: int) -> MessyTable:
    """Answers to a questionnaire, as typed by the people asked."""
    m = Maker("survey", "would recommend", n)
    rng = m.rng
    m.unused("respondent", [f"R_{number:x}" for number in rng.integers(2**48, size=n)])
    age = rng.integers(18, 85, n)
    forms = [Form("{:.0f}".format, 0)]
    forms += [Form("{:.0f} years".format, 0, 0.1), Form("{:.0f} yrs".format, 0, 0.05)]
    m.numbers("How old are you?", age, *forms, gaps=["prefer not to say", ""], missing=0.12)
    m.words("Age group", m.pick(["18-24", "25-34", "35-54", "55-64", "65+"]))
    levels = ["strongly disagree", "disagree", "neither agree nor disagree", "agree"]
    agree = m.pick([*levels, "strongly agree"])
    m.words("The staff was friendly and helpful to me", agree, missing=0.04)
    degrees = ["less than a high school diploma", "high school diploma or equivalent (GED)"]
    degrees += ["bachelor's degree (for example BA, BS)", "a graduate or professional degree"]
    m.words("Education", m.pick(degrees))
    m.words(
        "Gender",
        m.pick(["Female", "Male", "Other"], [10, 10, 1]),
        spellings={"Female": ["Female", "female", "FEMALE"], "Male": ["Male", "male"]},
    )
    income = rng.lognormal(10.6, 0.5, n)
    m.numbers("Income", income, Form(lambda v: f"{v / 1000:.0f}k", -3),
              Form("${:,.0f}".format, -3, 0.4), Form("{:.0f}".format, -3, 0.2),
              gaps=["refused", "none of your business", ""], missing=0.1)  # fmt: skip
    m.numbers("Hours online", rng.gamma(2, 1.5, n), Form("{:.1f}".format, 1),
              Form("about {:.0f}".format, 0, 0.2), Form("{:.0f}h".format, 0, 0.1),
              gaps=["don't know"])  # fmt: skip
    m.numbers("Children", np.minimum(rng.poisson(1.1, n), 4),
              Form(lambda v: "4 or more" if v == 4 else "none" if v == 0 else f"{v:.0f}", 0),
              missing=0.0)  # fmt: skip
    m.words("Owns a car", m.pick(["Yes", "No"]), spellings={"Yes": ["Yes", "Y", "yes"]})
    m.numbers("Satisfaction (0-10)", rng.integers(0, 11, n), Form("{:.0f}".format, 0), missing=0.05)
    height = rng.normal(170, 9, n)
    m.numbers("Height", height, Form("{:.0f}cm".format, 0), Form("{:.2f}m".format, 2, 0.3, 100.0))
    m.dates("Date of birth", np.datetime64("2024-06-01") - 365 * age, "%d %b %Y")
    m.words(
        "Country", m.pick(["Kenya", "Ghana", "Uganda"]), spellings={"Kenya": ["Kenya", "kenya "]}
    )
    m.unused(
        "Anything else?", [f"no, but question {row} was hard to understand" for row in range(n)]
    )
    m.words("Mode", m.pick(["web", "phone"]))
    return m.finish(age / 20 + np.log(income), ["no", "maybe", "yes"], unlabelled=0.05)


def company_figures(n: int) -> MessyTable:
    """Figures of listed companies, copied from a financial site."""
    m = Maker("company figures", "rating", n)
    rng = m.rng
    letters = [chr(65 + k) for k in range(26)]
    m.unused("ticker", ["".join(rng.choice(letters, 4)) + str(row) for row in range(n)])
    size = rng.lognormal(21, 1.8, n)
    cells = [f"${v / 1e9:.2f}B" if v >= 1e9 else f"${v / 1e6:.1f}M" for v in size]
    truth = [round(v / 1e9, 2) * 1e9 if v >= 1e9 else round(v / 1e6, 1) * 1e6 for v in size]
    m.add("market cap", cells, NUMBER, truth)
    income = rng.normal(40, 160, n)
    m.numbers("net income", income, Form(lambda v: f"({-v:,.1f})" if v < 0 else f"{v:,.1f}", 1))
    m.numbers("change", rng.normal(0, 3, n), Form("{:+.2f}%".format), gaps=["unch."])
    m.numbers("P/E", rng.lognormal(3, 0.5, n), Form("{:.1f}x".format, 1), gaps=["n.m.", "—"],
              missing=0.2)  # fmt: skip
    m.numbers("dividend", rng.gamma(2, 0.6, n), Form("{:.2f} %".format), gaps=["-"], missing=0.3)
    m.numbers("employees", rng.lognormal(8, 1.4, n), Form("{:,.0f}".format, 0),
              Form("~{:,.0f}".format, -2, 0.1))  # fmt: skip
    m.numbers("volume", rng.lognormal(13, 1.4, n), Form(lambda v: f"{v / 1e6:.2f}M", -4))
    m.numbers("debt ratio", rng.uniform(0, 2, n), Form("{:.3f}".format, 3))
    m.dates("fiscal year end", np.datetime64("2023-01") + rng.integers(0, 12, n), "%b %Y")
    m.numbers("founded", rng.integers(1850, 2020, n), Form("{:.0f}".format, 0), gaps=["n/a"])
    m.words("sector", m.pick(["Energy", "Health", "Tech", "Utilities", "Finance"]))
    m.words("exchange", m.pick(["NYSE", "NASDAQ", "LSE"]))
    m.words("sic", m.pick(["0100", "1311", "2834", "4911", "7372"]))
    bounds = np.sort(np.round(rng.uniform(5, 300, (n, 2)), 2), axis=1)
    m.add("52 week range", [f"{a:.2f} - {b:.2f}" for a, b in bounds], NUMBER, bounds)
    m.numbers("beta", rng.normal(1, 0.4, n), Form("{:.2f}".format), gaps=["--"])
    m.words("S&P 500", m.pick(["Y", "N"], [1, 3]))
    m.unused("web site", [f"https://www.company{row}.example" for row in range(n)])
    return m.finish(income / 80 + np.log(size), ["sell", "hold", "buy"])


def athletes(n: int) -> MessyTable:
    """Athletes and their results, from a federation's pages."""
    m = Maker("athletes", "selected", n)
    rng = m.rng
    m.unused("name", [f"Athlete {chr(65 + row % 26)}{row}" for row in range(n)])
    m.unused("bib", [str(number) for number in rng.permutation(n) + 1])
    m.dates("born", np.datetime64("1990-01-01") + rng.integers(0, 5000, n), "%d.%m.%y")
    inches = np.round(rng.normal(70, 3, n))
    m.add("height", [f"{i // 12:.0f} ft {i % 12:.0f} in" for i in inches], NUMBER, inches)
    kilos = rng.normal(72, 9, n)
    m.numbers(
        "weight", kilos, Form("{:.0f}kg".format, 0), Form("{:.0f}lbs".format, 0, 0.3, 0.45359237)
    )
    jump = rng.normal(7.1, 0.4, n)
    m.numbers("long jump", jump, Form("{:.2f}m".format), gaps=["NM", "DNS"], missing=0.1)
    sprint = rng.normal(11.2, 0.5, n)
    m.numbers("100 m", sprint, Form("{:.2f}s".format), gaps=["DQ"])
    hurdles = rng.normal(15, 0.7, n)
    m.numbers("hurdles", hurdles, Form(lambda v: f"{v:.2f}".replace(".", ",")))
    lap = np.round(rng.normal(265, 12, n), 1)
    m.add("1500 m", [f"{int(v // 60)}:{v % 60:04.1f}" for v in lap], NUMBER, lap)
    m.numbers("wind", rng.normal(0.4, 1, n), Form("{:+.1f}".format, 1), missing=0.1)
    m.numbers("rank", rng.integers(1, 60, n), Form(_ordinal, 0))
    m.words(
        "club", m.pick(["TSV", "LG Nord", "SC", "VfL"]), spellings={"TSV": ["TSV", "Tsv", "tsv"]}
    )
    m.words("hand", m.pick(["left", "right"], [1, 8]))
    m.words("category", m.pick(["U18", "U20", "U23", "senior"]))
    m.numbers("training", rng.gamma(6, 2, n), Form("{:.0f} h/week".format, 0), gaps=["?"])
    m.numbers("seasons", rng.integers(1, 20, n), Form(lambda v: "1 season" if v == 1 else
                                                      f"{v:.0f} seasons", 0))  # fmt: skip
    m.words("nation", m.pick(["GER", "KEN", "USA", "JAM"]))
    m.words("doping test", m.pick(["negative", "pending"], [9, 1]), missing=0.2)
    return m.finish(jump - sprint, ["no", "reserve", "yes"])


def _ordinal(value: float) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(int(value) % 10, "th")
    return f"{value:.0f}{'th' if 10 <= value % 100 <= 20 else ending}"


def groceries(n: int) -> MessyTable:
    """Food products with what is printed on their labels."""
    m = Maker("groceries", "shelf", n)
    rng = m.rng
    m.unused("EAN", [f"{number:013d}" for number in rng.choice(10**12, n, replace=False)])
    m.words("brand", m.pick(["Alma", "Bio+", "Casa", "Delta", "Eden"]), missing=0.03)
    fat = rng.gamma(1.5, 6, n) + 0.5
    m.numbers("fat", fat, Form(lambda v: "<0.5 g" if v <= 0.5 else f"{v:.1f} g", 1))
    sugar = rng.gamma(1.5, 8, n)
    m.numbers("sugar", sugar, Form("{:.1f}g".format, 1), gaps=["traces", ""], missing=0.06)
    m.numbers("salt", rng.gamma(1.2, 0.5, n), Form("{:.2f} g".format),
              Form("{:.0f} mg".format, 0, 0.4, 0.001))  # fmt: skip
    energy = 40 * fat + 17 * sugar + 300
    m.numbers(
        "energy", energy, Form("{:,.0f} kJ".format, 0), Form("{:.0f} kcal".format, 0, 0.3, 4.184)
    )
    amount = rng.choice([100, 250, 330, 500, 750, 1000, 1500], n).astype(float)
    forms = [Form("{:.0f} ml".format, 0)]
    forms += [Form("{:.2f} l".format, 2, 0.3, 1000.0), Form("{:.0f} cl".format, 0, 0.2, 10.0)]
    m.numbers("volume", amount, *forms)
    m.numbers("price", rng.lognormal(0.9, 0.6, n), Form("£{:.2f}".format))
    m.numbers("unit price", rng.lognormal(1.5, 0.6, n), Form("£{:.2f}/kg".format))
    forms = [Form("{:.0f} %".format, 0), Form("min. {:.0f} %".format, 0, 0.1)]
    m.numbers("fruit", rng.uniform(0, 100, n), *forms, missing=0.3)
    m.numbers("vitamin C", rng.gamma(2, 20, n), Form("{:.0f} mg (25% NRV)".format, 0), missing=0.4)
    m.words("nutri-score", m.pick(["A", "B", "C", "D", "E"]), spellings={"A": ["A", "a"]})
    m.words("organic", m.pick(["yes", "no"]), missing=0.1)
    m.words("allergens", m.pick(["milk", "gluten", "nuts", "milk, gluten"]), gaps=["none", "-"],
            missing=0.4)  # fmt: skip
    m.numbers("shelf life", rng.choice([7, 14, 30, 180, 365], n), Form("{:.0f} d".format, 0),
              Form("{:.0f} weeks".format, 0, 0.2, 7.0))  # fmt: skip
    m.dates("listed since", np.datetime64("2018-01-01") + rng.integers(0, 2000, n), "%Y/%m/%d")
    ranges = [f"{low}-{low + 4} °C" for low in rng.choice([2, 4, 15], n)]
    m.add("store at", ranges, CATEGORY, ranges)
    m.unused("ingredients", [f"water, sugar, starch, flavour no. {row}, salt" for row in range(n)])
    m.words("aisle", m.pick([f"{number:02d}" for number in range(1, 9)]))
    return m.finish(sugar - fat, ["top", "middle", "bottom"], unlabelled=0.01)
