"""Print the coverage of each room, from coverage's JSON on stdin; fail if some are below 95 %."""

from __future__ import annotations

import json
import sys
from collections import Counter

CHECKED = ("learners", "numerics", "constraints", "metrics", "losses")
LEAST = 95.0


def main() -> None:
    """Print a table, and exit with 1 if less than 95 % of the lines of a checked room ran."""
    rooms: dict[str, Counter[str]] = {}
    for path, file in json.load(sys.stdin)["files"].items():
        room = path.partition("nearfar/")[2].split("/")[0]
        rooms.setdefault(room, Counter()).update(
            {key: value for key, value in file["summary"].items() if isinstance(value, int)}
        )
    low = []
    for room, counts in sorted(rooms.items()):
        lines = _percent(counts["covered_lines"], counts["num_statements"])
        branches = _percent(counts["covered_branches"], counts["num_branches"])
        print(f"{room:15} lines {lines:6.1f} %   branches {branches:6.1f} %")
        if room in CHECKED and lines < LEAST:
            low.append(room)
    if low:
        sys.exit(f"Less than {LEAST:.0f} % of the lines are covered in {', '.join(low)}.")


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


if __name__ == "__main__":
    main()
