"""`compare` on small data sets."""

from __future__ import annotations

import argparse
import time

from nearfar import compare
from protocol import load

SETS = ("wine", "ionosphere", "digits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="one small set, one learner")
    parser.add_argument("sets", nargs="*", default=SETS, help=f"names [{' '.join(SETS)}]")
    arguments = parser.parse_args()
    for name in ["iris"] if arguments.toy else arguments.sets:
        X, y = load(name)
        start = time.perf_counter()
        found = compare(X, y, ["MetricBoost"] if arguments.toy else None)
        print(f"{name}, {time.perf_counter() - start:.0f} s\n\n{found}\n")


if __name__ == "__main__":
    main()
