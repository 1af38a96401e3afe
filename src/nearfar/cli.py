"""The command line: the list of commands, each a function; `nearfar.command` makes them."""

from __future__ import annotations

import sys

COMMANDS = {
    "Learn": {
        "learn": ("tables.learn:learn", "nearfar learn table.csv --label species"),
        "compare": (
            "tables.compare:compare",
            "nearfar compare table.csv --label species --budget 60s",
        ),
        "report": (
            "tables.report:report",
            "nearfar report table.csv --label species --out report.html",
        ),
        "show": ("tables.show:show", "nearfar show table.safetensors"),
    },
    "Use a metric": {
        "transform": (
            "tables.transform:transform",
            "nearfar transform table.safetensors new.csv mapped.csv",
        ),
        "neighbors": (
            "tables.neighbors:neighbors",
            "nearfar neighbors table.safetensors table.csv --row 0",
        ),
        "predict": (
            "tables.predict:predict",
            "nearfar predict table.safetensors table.csv new.csv --label species",
        ),
        "verify": (
            "tables.verify:verify",
            "nearfar verify faces.safetensors faces.csv pairs.csv --target 'fmr<=0.01'",
        ),
        "threshold": (
            "tables.threshold:threshold",
            "nearfar threshold pairs.csv --score similarity --same same --left a --right b",
        ),
        "evaluate": (
            "tables.evaluate:evaluate",
            "nearfar evaluate table.safetensors new.csv --label species",
        ),
        "export": (
            "tables.export:export",
            "nearfar export table.safetensors --to onnx --out table.onnx",
        ),
    },
    "Search": {
        "adapt": (
            "search.adapt:adapt",
            "nearfar adapt queries.parquet documents.parquet --qrels judged.qrels",
        ),
        "weigh": (
            "search.weigh:weigh",
            "nearfar weigh queries.parquet documents.parquet --qrels judged.qrels --bm25 text",
        ),
        "search-report": (
            "search.adapt:search_report",
            "nearfar search-report queries.parquet documents.parquet --qrels judged.qrels",
        ),
        "gate": (
            "search.gate:gate",
            "nearfar gate old.safetensors new.safetensors --queries queries.parquet "
            "--documents documents.parquet --qrels gate.qrels",
        ),
    },
    "Records": {
        "match": (
            "records.match:match",
            "nearfar match left.csv right.csv --pairs known.csv --target 'fmr<=1e-4' --out "
            "matches.csv",
        ),
    },
    "Ask people": {
        "ask": ("ask.ask:ask", "nearfar ask objects.csv --id name --out judgements.db"),
    },
}
"""Module, function and example of each command, by group."""

OPTION_GROUPS = {
    "Supervision": "label numbers triplets pairs same left right id group qrels beir "
    "ignore-unknown train",
    "Columns": "drop numeric categorical text impute show keep vector image-shape column image "
    "columns source bm25 number",
    "Questions": "kind random-share person pictures vectors ask questions",
    "Method": "method metric distance scale set max-iter goal side score adapter how candidates "
    "matcher",
    "Decision": "threshold target confidence prevalence level",
    "Testing and time": "budget checkpoint folds neighbors split seed classifiers "
    "only-if-significant comparison leave-out-learned",
    "Input and output": "out write voters to rows row queries as-vector documents results index "
    "dialect table mapped run-out json title export replay answers save report license",
    "Server": "host port browser show-results",
}
OPTIONAL_ARGUMENTS = {"right", "objects", "source"}
"""Parameters with a default that are arguments."""

OTHER_WORDS = {
    word: command
    for command, words in {
        "learn": "train fit teach",
        "compare": "benchmark tune",
        "transform": "map apply project embed encode cluster kmeans",
        "neighbors": "search query find nearest knn",
        "predict": "classify label",
        "evaluate": "score test validate eval",
        "report": "plot visualize view",
        "show": "info describe inspect print",
        "export": "convert deploy hub card",
        "adapt": "finetune",
        "match": "link dedupe deduplicate join",
        "ask": "annotate judge collect",
    }.items()
    for word in words.split()
}
"""Words that people try, and the commands that they mean."""
_CLUSTER = " Then cluster the mapped rows by any method for Euclidean distance."
MORE = {
    "cluster": _CLUSTER,
    "kmeans": _CLUSTER,
    "search": " For judged searches, see `nearfar adapt` and `nearfar search-report`.",
}

FIRST = """Learn the distance that your task needs. Try it now:

  nearfar learn circles                    learn from an example, no file needed
  nearfar show circles.safetensors         see what matters

With a table of your own, and labels in a column:

  nearfar learn table.csv --label species
  nearfar report table.csv --label species

`nearfar --help` lists all commands, and `nearfar learn --help` the options of one."""
"""What ``nearfar`` alone says."""


def main() -> None:
    """Run the command line, or say which packages it needs."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not lose the result.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        from nearfar.terminal import install_signals

        install_signals()
        from nearfar import command

        command.app()
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich", "polars"}:
            raise
        sys.exit(f"nearfar's command line needs {error.name}: pip install 'nearfar[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
