"""Write the tables of the documentation again, from stored results.

A table stands between ``<!-- benchmarks/NAME.py: begin -->`` and ``end``, and is what `table` of
that benchmark makes of its `stored` results. Scripts in ``.ci`` may have tables, too. ``--toy``
only says which pages would change.
"""

from __future__ import annotations

import argparse
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"(?P<begin><!-- (?P<script>(?:benchmarks|\.ci)/\w+\.py): begin -->\n)(?P<text>.*?)"
    r"(?P<end>\n<!-- (?P=script): end -->)",
    re.DOTALL,
)


def made(script: str) -> str:
    """Return the table that a script makes of its stored results."""
    names = runpy.run_path(str(ROOT / script))
    text: str = names["table"](names["stored"]())
    return text


def filled(page: str) -> str:
    """Return a page with the tables of today's results."""
    return BLOCK.sub(lambda found: found["begin"] + made(found["script"]) + found["end"], page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.read_text()
        if (new := filled(page)) != page:
            print(path.relative_to(ROOT))
            if not arguments.toy:
                path.write_text(new)


if __name__ == "__main__":
    main()
