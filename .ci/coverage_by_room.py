"""Print the coverage of each room, from coverage's JSON on stdin; fail if some are below 95 %.

``--mathematics`` leaves out other rooms. ``--store`` also keeps the counts and the commit in
.ci/coverage.json, from which the table in docs/development/testing.md is made.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

CHECKED = ("learners", "losses", "numerics", "supervision", "metrics")
LEAST = 95.0
STORED = Path(__file__).with_name("coverage.json")
COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")
Rooms = dict[str, dict[str, int]]


def main() -> None:
    """Print a table, and exit with 1 if less than 95 % of the lines of a checked room ran."""
    rooms = counted(json.load(sys.stdin))
    if "--mathematics" in sys.argv:
        rooms = {room: rooms[room] for room in CHECKED}
    print(table(rooms))
    if "--store" in sys.argv:
        STORED.write_text(json.dumps({"commit": commit(), "rooms": rooms}, indent=2) + "\n")
    low = [room for room in CHECKED if _percent(rooms[room], "lines") < LEAST]
    if low:
        sys.exit(f"Less than {LEAST:.0f} % of the lines are covered in {', '.join(low)}.")


def counted(report: dict[str, Any]) -> Rooms:
    """Return the counts of each room, in the order of their names."""
    rooms: dict[str, Counter[str]] = {}
    for path, file in report["files"].items():
        room = path.partition("nearfar/")[2].split("/")[0]
        found = {key: file["summary"][key] for key in COUNTS}
        rooms.setdefault(room, Counter()).update(found)
    return {room: dict(rooms[room]) for room in sorted(rooms)}


def commit() -> str:
    """Return the commit that was measured."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def stored() -> Rooms:
    """Return the counts of the last run that was kept."""
    rooms: Rooms = json.loads(STORED.read_text())["rooms"]
    return rooms


def table(rooms: Rooms) -> str:
    """Return a table in Markdown."""
    lines = ["| | lines | covered | branches | covered |", "| --- | --- | --- | --- | --- |"]
    for room, counts in rooms.items():
        shares = [f"{_percent(counts, kind):.1f} %" for kind in ("lines", "branches")]
        numbers = [f"{counts[key]:,}" for key in ("num_statements", "num_branches")]
        lines.append(f"| {room} | {numbers[0]} | {shares[0]} | {numbers[1]} | {shares[1]} |")
    return "\n".join(lines)


def _percent(counts: dict[str, int], kind: str) -> float:
    whole = counts["num_statements" if kind == "lines" else "num_branches"]
    return 100 * counts[f"covered_{kind}"] / whole if whole else 100.0


if __name__ == "__main__":
    main()
