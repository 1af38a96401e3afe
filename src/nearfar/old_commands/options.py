"""Arguments and options that commands share, and what some of them mean together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from nearfar.frames.formats import ARRAYS, TABLES
from nearfar.frames.judgements import refuse_judgements
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.metrics.metric import Metric as LearnedMetric
from nearfar.old_commands.files import spooled
from nearfar.old_commands.terminal import UserError, bars
from nearfar.runtime.progress import stage
from nearfar.tables.methods import METHOD_NAMES

_SOURCE = typer.Argument(
    callback=spooled,
    help=f"Table ({', '.join(TABLES)}), array ({', '.join(ARRAYS)}), name of a dataset, or - for "
    "stdin.",
)
Source = Annotated[str, _SOURCE]
SourceOrNothing = Annotated[
    str, typer.Argument(callback=spooled, help=_SOURCE.help, show_default=False)
]
GivenMetric = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Report on this metric file instead of learning a metric."),
]
ImageShape = Annotated[
    str | None, typer.Option(metavar="HxW", help="Shape of images, such as 28x28 or 32x32x3.")
]
Label = Annotated[
    str | None,
    typer.Option(help="Column of labels; for .npz the name of an array, for .npy another file."),
]
Numbers = Annotated[
    bool | None,
    typer.Option(
        "--numbers/--classes",
        help="The labels are numbers to predict, or classes [default: numbers if some are not "
        "whole, or if there are more than 30 values, most with fewer than five rows].",
        show_default=False,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Column of groups, such as persons: rows of one group are never both learned from and "
        "tested on. For .npz the name of an array, for .npy another file."
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN,...", help="Columns to leave out; repeatable.")
]
Numeric = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN,...", help="Columns that are numbers, not ids; repeatable."),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN,...", help="Columns that are categories; repeatable."),
]
Impute = Annotated[
    bool, typer.Option("--impute/--no-impute", help="Fill in missing values, or refuse them.")
]
Id = Annotated[
    str | None, typer.Option("--id", help="Column of row names, for constraints and results.")
]
FreeText = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN,...",
        help="Columns of free text to use, as TF-IDF reduced by an SVD; repeatable.",
    ),
]
Title = Annotated[str | None, typer.Option(help="Heading of the report [default: SOURCE].")]
Image = Annotated[str | None, typer.Option(help="Column with paths of pictures.")]
Pictures = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the pictures [default: the table's]; without --image, --id names them.",
    ),
]
Show = Annotated[str | None, typer.Option(help="Column to show for each row.")]
TripletsPath = Annotated[
    Path | None,
    typer.Option(
        "--triplets",
        help="Table of triplets: anchor, near, far [, weight, person]; rows count from 0.",
    ),
]
PairsPath = Annotated[
    Path | None,
    typer.Option(
        "--pairs", help="Table of pairs: a, b, similar [, weight, person]; rows count from 0."
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="Method, or how its name begins [default: what the verdict recommends of autometric "
        f"and simple methods]: {', '.join(METHOD_NAMES)}."
    ),
]


class Goal(StrEnum):
    """What a metric is for."""

    classification = "classification"
    ranking = "ranking"


GoalOption = Annotated[Goal, typer.Option("--goal", help="What the verdict on labels is about.")]
MaxIter = Annotated[
    int | None, typer.Option(min=1, help="Most iterations [default: the method's own].")
]


class ScaleName(StrEnum):
    """How a learner scales rows."""

    auto = "auto"
    standard = "standard"
    unit = "unit"
    cosine = "cosine"


Scale = Annotated[
    ScaleName | None,
    typer.Option(
        help="Rows to learn from: standardised, unscaled (unit), or of unit length (cosine) "
        "[default: the method's own; auto chooses by the data]."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Parameter of the method; repeatable."),
]
Folds = Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Classifiers = Annotated[
    bool,
    typer.Option(
        "--classifiers/--no-classifiers",
        help="Show the errors of logistic regression and gradient boosting beside the methods.",
    ),
]


@dataclass(frozen=True)
class CrossValidation:
    """How methods are tested."""

    folds: Folds = 5
    neighbors: Annotated[
        int, typer.Option(min=0, help="Number of neighbours; 0 chooses it for each method.")
    ] = 0
    seed: Seed = 0
    classifiers: Classifiers = True

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `nearfar.learn` and `nearfar.compare` that these are."""
        return {
            "cv": self.folds,
            "n_neighbors": self.neighbors or "auto",
            "random_state": self.seed,
            "classifiers": self.classifiers,
        }


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DEFAULT_BUDGET = "120s"
Budget = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Time limit of the comparison: 60s, 5m or 1h."),
]
TotalBudget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time limit: 60s, 5m or 1h. It covers reading, the comparison and the fit; many rows "
        "are compared, and learned from, as a sample. Without a comparison, only autometric is "
        "limited.",
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Save progress in this file; run the same command again to continue."
    ),
]


def output(help_text: str) -> typer.models.OptionInfo:
    """Return the option ``--out``."""
    return typer.Option("--out", metavar="FILE", help=help_text)


@dataclass(frozen=True)
class SupervisedInput:
    """Where rows come from, what their columns are, and what to learn from."""

    source: SourceOrNothing = ""
    label: Label = None
    numbers: Numbers = None
    drop: Drop = None
    numeric: Numeric = None
    categorical: Categorical = None
    text: FreeText = None
    impute: Impute = True
    triplets: TripletsPath = None
    pairs: PairsPath = None
    ids: Id = None
    group: Group = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.label, self.triplets, self.pairs)) > 1:
            raise UserError("Give only one of --label, --triplets and --pairs.")
        if not self.source:
            kind = "triplets" if self.triplets else "pairs"
            refuse_judgements(Path(), self.triplets or self.pairs, kind)

    @property
    def files(self) -> list[str | Path | None]:
        """The files that are read."""
        return [self.source, self.label, self.triplets, self.pairs, self.group]

    def read(
        self,
        *,
        numbers: bool | None = None,
        show: str | None = None,
        image: str | None = None,
        pictures: Path | None = None,
        metric: LearnedMetric | None = None,
    ) -> Table:
        """Read the rows, and their labels, triplets or pairs.

        Parameters
        ----------
        numbers: Whether labels are numbers, not classes, if no option says so.
        show: Column to show for each row.
        image, pictures: Column with paths of pictures, and their folder.
        metric: The metric whose features are wanted.
        """
        with bars(), stage("reading the rows"):
            return read_table(
                self.source,
                label=self.label,
                triplets=self.triplets,
                pairs=self.pairs,
                group=self.group,
                ids=self.ids,
                drop=self.drop,
                numeric=self.numeric,
                categorical=self.categorical,
                text=self.text,
                show=show,
                image=image,
                pictures=pictures,
                impute=self.impute,
                numbers=numbers if self.numbers is None else self.numbers,
                metric=metric,
                required=True,
            )
