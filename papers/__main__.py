"""``python -m papers COMMAND``: run the papers' cells, report on them, and check them."""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from fnmatch import fnmatchcase

from papers import checking, grim, report, runner, task
from papers.curves import curve
from papers.deciding import deciding
from papers.frontier import fits
from papers.frontier import page as frontier_page
from papers.verdicts import outcomes


def seconds(text: str) -> float:
    """Return a duration such as 90s, 20m or 2h in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write for instance 20m or 2h.")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def run(arguments: argparse.Namespace) -> int:
    """Do what is missing."""
    chosen = [t for t in task.tasks(arguments.paper) if fnmatchcase(t.cell, arguments.cell)]
    if arguments.variant:
        chosen = [t for t in chosen if t.variant in arguments.variant.split(",")]
    found = deciding(chosen, outcomes()) if arguments.undecided else runner.missing(chosen)
    waiting = [each for each in found if each[1] < arguments.runs]
    print(f"{len(chosen)} tasks, {len(waiting)} runs to do")
    limits = {"budget": arguments.budget, "longest": arguments.longest}
    runner.run_all(waiting, n_jobs=arguments.jobs, show=_show, **limits)
    return 0


def curves(arguments: argparse.Namespace) -> int:
    """Do the missing runs of the figures."""
    for line in curve.compute(lambda name: fnmatchcase(name, arguments.figure)):
        _show(line)
    return 0


def frontier(arguments: argparse.Namespace) -> int:
    """Do the missing fits of the frontier."""
    sets = [rows for rows in fits.SETS if fnmatchcase(rows.name, arguments.set)]
    methods = [name for name in fits.METHODS if fnmatchcase(name, arguments.method)]
    programs = fits.Interpreters(arguments.python, arguments.torch)
    for line in fits.run(sets, methods, programs, arguments.limit, arguments.splits):
        _show(line)
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Repeat some stored runs."""
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    return 0 if checking.repeat(arguments.runs, seed, print) else 1


def confirm(arguments: argparse.Namespace) -> int:
    """Repeat runs whose code was rewritten."""
    return 0 if checking.confirm(arguments.runs, _show) else 1


def explain(arguments: argparse.Namespace) -> int:
    """Print what is known about a cell."""
    for line in checking.explain(arguments.cell):
        print(line)
    return 0


def write(_: argparse.Namespace) -> int:
    """Write page and figures."""
    report.write()
    frontier_page.write()
    print(f"{report.PAGE.name} and {report.FIGURE.parent.name}/ are written.")
    return 0


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the reader of the command line."""
    main_parser = argparse.ArgumentParser(prog="python -m papers", description=__doc__)
    commands = main_parser.add_subparsers(required=True)
    command = commands.add_parser("run", help="do the runs that have no result")
    command.add_argument("--paper", choices=task.PAPERS)
    command.add_argument("--cell", default="*", help="a pattern such as 'boostmetric/T1/*'")
    command.add_argument("--variant", help="of paper, default, reference; several with commas")
    command.add_argument("--budget", type=seconds, default=seconds("2h"), help="such as 20m")
    command.add_argument(
        "--longest", type=seconds, help="CPU time of a run, such as 3m; longer tasks are left"
    )
    command.add_argument("--jobs", type=int, default=2)
    command.add_argument("--runs", type=int, default=10**6, help="only the first runs of each task")
    command.add_argument(
        "--undecided", action="store_true", help="only further runs that decide a verdict"
    )
    command.set_defaults(work=run)
    command = commands.add_parser("curves", help="do the runs of figures that have no result")
    command.add_argument("--figure", default="*", help="a pattern such as 'msnca/*'")
    command.set_defaults(work=curves)
    command = commands.add_parser("frontier", help="do the fits of the frontier")
    command.add_argument("--set", default="*", help="a pattern of names of sets")
    command.add_argument("--method", default="*", help="a pattern such as 'nearfar *'")
    command.add_argument("--python", default=os.environ.get("NEARFAR_METRIC_LEARN"))
    command.add_argument("--torch", default=os.environ.get("NEARFAR_TORCH"))
    command.add_argument("--limit", type=float, default=120.0, help="CPU seconds of a process")
    command.add_argument("--splits", type=int, default=fits.SPLITS)
    command.set_defaults(work=frontier)
    command = commands.add_parser("report", help="write the page and the figures from the results")
    command.set_defaults(work=write)
    command = commands.add_parser("check", help="repeat some cheap runs drawn at random")
    command.add_argument("--runs", type=int, default=20)
    command.add_argument("--seed", type=int, help="draw the same runs as before")
    command.set_defaults(work=check)
    command = commands.add_parser(
        "confirm", help="repeat runs whose code was rewritten, and record that results are the same"
    )
    command.add_argument("--runs", type=int, default=6, help="of each method")
    command.set_defaults(work=confirm)
    command = commands.add_parser("explain", help="print what is known about a cell")
    command.add_argument("cell")
    command.set_defaults(work=explain)
    commands.add_parser("grim", help="test sizes that can give the printed means", add_help=False)
    return main_parser


def main() -> int:
    """Read the command line."""
    if sys.argv[1:2] == ["grim"]:
        return grim.main(sys.argv[2:])
    arguments = parser().parse_args()
    return int(arguments.work(arguments))


if __name__ == "__main__":
    sys.exit(main())
