"""What the documentation names exists: files, names, parameters, commands and options.

Sphinx checks links and references when it builds the site; its pages' commands run in
`tests/cli/test_transcripts.py`, and `test_guides.py` runs the blocks of guides.
"""

from __future__ import annotations

import ast
import inspect
import re
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import nearfar
from docs.pages import PATHS, ROOT, Page
from nearfar.command import app

PAGES = [Page.read(path) for path in PATHS]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)

PATH = re.compile(r"[\w.<*][\w.<>*-]*(?:/[\w.<>*-]*)+|[\w-]+\.(?:py|md|toml|html|css|js)")
TREE_FILE = re.compile(r"\w+\.(?:py|html|css|js)\b")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
NOT_PYTHON = re.compile(r"--|[A-Z]+=|[a-z]+(-[a-z]+)+$|\w+\.(db|jsonl|np[yz]|parquet)$")

OTHER_NAMES = {
    "scikit-learn": "svm SVC set_score_request",
    "skrub": "TableVectorizer",
    "markers of pytest": "services",
    "metric-learn": (
        "A_ ITML_Supervised LSML_Supervised MMC_Supervised RCA_Supervised SCML SCML_Supervised "
        "SDML SDML_Supervised _Supervised balance_param calibrate_threshold calibration_params "
        "converged_ embedding_type get_mahalanobis_matrix k_genuine k_impostor output_iter "
        "pair_score pairs_valid preprocessor_ regularization sparsity_param y_valid"
    ),
    "settings of vector stores": (
        "vector_cosine_ops vector_ip_ops vector_l2_ops array_cosine_distance array_distance "
        "array_negative_inner_product Cosine Dot Euclid cosinesimil innerproduct l2 l2_norm "
        "max_inner_product dot_product COSINE IP L2 METRIC_INNER_PRODUCT METRIC_L2 ip halfvec "
        "vector"
    ),
    "extras, in pyproject.toml": "ci",
    "columns and variables of the reader": "emb df remarks",
    "a key of a dictionary that is put together": "training_rows",
}
"""Names in the documentation that are not in the sources, in groups with the reason for each."""

VARIABLES = {
    "columns": "Columns",
    "metric": "Metric",
    "triplets": "Triplets",
    "verifier": "PairVerifier",
}
"""Variables in inline code, and their classes."""

PATHS_ELSEWHERE = (
    ".venv/*",  # made by the reader
    ".ci/artefacts",  # made by .ci/run
    "*auto_examples/*",  # pages of the gallery, made by the site
    "docs/_build/*",  # the site
    "qrels/*.tsv",  # in a BEIR folder
    "N/A",  # a cell that counts as missing
    "2024/12/31",  # a date
)

NEED_MORE = {"nearfar.deploy.sentence_transformers"}
"""Modules for packages that are not always installed."""

OTHER_OPTIONS = {"--toy"}
"""Options of other programs: of the benchmarks."""


# Files


@every_page
def test_files(page):
    words = [(word, part.line) for part in page.code for word in part.text.split()]
    paths = [(word, line) for word, line in words if PATH.fullmatch(word)]
    assert [(word, line) for word, line in paths if not exists(word, page)] == []
    assert dead_links(page) == []


def test_links_of_the_changelog():
    assert dead_links(Page.read(ROOT / "CHANGELOG.md")) == []


def dead_links(page: Page) -> list[tuple[str, int]]:
    """Return links to files that do not exist, with their lines."""
    targets = [(link.text.partition("#")[0], link.line) for link in page.links]
    folder = (ROOT / page.name).parent
    return [
        (target, line)
        for target, line in targets
        if "://" not in target and not (folder / target).exists()
    ]


@every_page
def test_anchors(page):
    wrong = []
    for link in page.links:
        target, _, anchor = link.text.partition("#")
        path = (ROOT / page.name).parent / target if target else ROOT / page.name
        if anchor and "://" not in target and path.suffix == ".md" and anchor not in anchors(path):
            wrong.append((link.text, link.line))
    assert wrong == []


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, also of pages that it includes."""
    page = Page(path.name, path.read_text())
    included = re.findall(r"^:::\{include\} (\S+\.md)$", page.text, re.MULTILINE)
    found = set().union(*(anchors(path.parent / name) for name in included))
    for heading in re.findall(r"^#+ (.+)$", page.prose, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower())
        found.add(words.strip().replace(" ", "-"))
    return found


def test_anchors_are_those_of_headings():
    found = anchors(ROOT / "docs/methods/drmetric.md")
    assert found == {"drmetric", "usage", "why-the-papers-version-fails"}


def exists(word: str, page: Page) -> bool:
    """Tell whether a path exists from the root, the package or the page, or a file by its name."""
    if any(fnmatch(word, pattern) for pattern in PATHS_ELSEWHERE):
        return True
    pattern = re.sub(r"<\w+>", "*", word).strip("/")
    if "/" not in word:
        return (ROOT / word).exists() or any(ROOT.glob(f"src/**/{pattern}"))
    folders = [ROOT, ROOT / "src", ROOT / "src/nearfar", (ROOT / page.name).parent]
    return any(any(folder.glob(pattern)) for folder in folders)


def test_the_tree_of_the_architecture_has_every_file_once():
    page = Page.read(ROOT / "docs/development/architecture.md")
    (tree,) = [block.text for block in page.blocks if "├──" in block.text]
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "src/nearfar").rglob("*")
        if TREE_FILE.fullmatch(path.name) and path.parent.name != "__pycache__"
        if path.name != "_version.py"  # made by the build
    }
    shown = {path for path in files if not path.endswith("/__init__.py")}
    assert sorted(drawn_files(tree)) == sorted({*shown, "src/nearfar/__init__.py"})


def drawn_files(tree: str) -> list[str]:
    """Return the files of a drawn tree; four characters of drawing are one folder down."""
    folders: list[str] = []
    files = []
    for line in tree.splitlines():
        drawing = re.match(r"[│├└─ ]*", line)[0]
        depth, names = len(drawing) // 4, line[len(drawing) :]
        if folder := re.match(r"([\w/]+/)(?:\s|$)", names):
            folders = [*folders[:depth], folder[1]]
        else:
            inside = folders[:depth] if "──" in line else folders
            names = re.split(r"\s{2,}", names)[0]
            files += ["".join(inside) + name for name in TREE_FILE.findall(names)]
    return files


def test_drawn_files():
    tree = "src/nearfar/\n├── one.py, two.py  both\n└── rows/\n    ├── page.css    style\n"
    files = ["src/nearfar/one.py", "src/nearfar/two.py", "src/nearfar/rows/page.css"]
    assert drawn_files(tree) == files


# Names and calls


@every_page
def test_names(page):
    known = words().union(*(names.split() for names in OTHER_NAMES.values()))
    known |= set(re.findall(r"\w+", " ".join(block.text for block in page.blocks)))
    unknown = []
    for part in page.code:
        tree = expression(part.text)
        for node in ast.walk(tree) if tree else ():
            name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)
            if name and len(name) > 1 and name not in known:
                unknown.append((name, part.line))
    assert unknown == []


@every_page
def test_calls_and_members(page):
    wrong = []
    for part in page.code:
        wrong += [(message, part.line) for message in misuses(expression(part.text))]
    for block in page.blocks:
        if block.kind == "python" and not block.text.startswith("# metric-learn"):
            tree = ast.parse(block.text)
            wrong += [(message, block.line) for message in [*misuses(tree), *not_importable(tree)]]
    assert wrong == []


@cache
def words() -> set[str]:
    """Return the words of the sources, and the environment variables that tests read."""
    texts = [p.read_text() for p in (ROOT / "src").rglob("*") if p.suffix in (".py", ".html")]
    tests = "\n".join(path.read_text() for path in ROOT.glob("tests/**/*.py"))
    return set(re.findall(r"\w+", "\n".join(texts))) | set(re.findall(r"NEARFAR_\w+", tests))


def expression(text: str) -> ast.expr | None:
    """Return inline code as an expression; None if it is an option, a file or something else."""
    if PATH.fullmatch(text) or NOT_PYTHON.match(text):
        return None
    text = re.sub(r"^[@.](?=\w)|^[\w, ]+ = ", "", text).partition(" -> ")[0]
    for form in (text, f"dict({text})"):
        try:
            return ast.parse(form, mode="eval").body
        except SyntaxError:
            continue
    return None


@cache
def public() -> dict[str, object]:
    """Return public classes and functions by name, and variables of examples by their class."""
    modules = ["columns", "losses", "measures", "plots", "search", "verification"]
    names: dict[str, object] = {}
    for module in [nearfar, *(import_module(f"nearfar.{name}") for name in modules)]:
        names |= {name: getattr(module, name) for name in module.__all__}
    return names | {variable: names[name] for variable, name in VARIABLES.items()}


def resolved(node: ast.expr) -> object | None:
    """Return the class or function of nearfar that an expression is, or None."""
    if isinstance(node, ast.Call) and inspect.isclass(made := resolved(node.func)):
        return made
    if isinstance(node, ast.Name):
        return public().get(node.id)
    if isinstance(node, ast.Attribute):
        if ast.unparse(node.value) == "nearfar":
            return getattr(nearfar, node.attr, None)
        if inspect.isclass(owner := resolved(node.value)):
            member = getattr(owner, node.attr, None)
            return member if inspect.isroutine(member) else None
    return None


def misuses(tree: ast.AST | None) -> list[str]:
    """Return members that public classes do not have, and parameters that functions do not have."""
    found = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Attribute):
            owner = resolved(node.value)
            if inspect.isclass(owner) and not has_member(owner, node.attr):
                found.append(f"{owner.__name__} has no {node.attr}")
        elif isinstance(node, ast.Call) and callable(function := resolved(node.func)):
            parameters = inspect.signature(function).parameters
            unknown = {k.arg for k in node.keywords if k.arg} - {*parameters}
            if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
                found += [f"{ast.unparse(node.func)}: no parameter {name}" for name in unknown]
    return found


@cache
def has_member(cls: type, name: str) -> bool:
    """Tell whether a class has a member, or an attribute that only its instances have."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("nearfar")]
    texts = [base.__doc__ or "" for base in ours] + [inspect.getsource(base) for base in ours]
    return hasattr(cls, name) or bool(re.search(rf"\b{name}\b", "\n".join(texts)))


def not_importable(tree: ast.AST) -> list[str]:
    """Return names that cannot be imported from modules of nearfar."""
    imports = [
        (import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "nearfar"
        if node.module not in NEED_MORE
        for alias in node.names
    ]
    return [f"no {name} in {module}" for module, name in imports if not hasattr(module, name)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BoostMetric(losses=1)", "BoostMetric: no parameter losses"),
        ("Metric.saved", "Metric has no saved"),
        ("Metric(L).distances(X, of=Y)", "Metric(L).distances: no parameter of"),
        ("nearfar.compare(X, y, fold=3)", "nearfar.compare: no parameter fold"),
        ("metric.transfrom(X)", "Metric has no transfrom"),
    ],
)
def test_misuses_are_found(text, message):
    assert misuses(expression(text)) == [message]


# Commands and options


@cache
def commands() -> dict[str, set[str]]:
    """Return the options of each command."""
    found = {name: app.get_command(None, name) for name in app.list_commands(None)}
    parameters = {name: getattr(each, "inner", each).params for name, each in found.items()}
    return {
        name: {"--help"}.union(*([*p.opts, *p.secondary_opts] for p in those))
        for name, those in parameters.items()
    }


@every_page
def test_options(page):
    lines = [(part.text, part.line) for part in page.code]
    for block in page.blocks:
        if block.kind in ("sh", "console", ""):
            text = block.text.replace("\\\n", " ")
            calls = re.findall(r"^(?:\$ |\S*/)?nearfar .*", text, re.MULTILINE)
            lines += [(call, block.line) for call in calls]
    assert [(message, line) for text, line in lines for message in unknown_options(text)] == []


def unknown_options(text: str) -> list[str]:
    """Return options that the named command does not have, or no command if none is named."""
    found = []
    for part in re.split(r"&&|[|;]", re.sub(r'"[^"]*"|\'[^\']*\'', "", text)):
        command = re.match(r"\s*(?:\$ )?(?:\S*/)?nearfar ([a-z-]+)", part)
        if command and command[1] not in commands():
            found.append(f"no command {command[1]}")
            continue
        known = commands()[command[1]] if command else set().union(*commands().values())
        found += [option for option in OPTION.findall(part) if option not in known | OTHER_OPTIONS]
    return found


def test_unknown_options_are_found():
    assert unknown_options("nearfar learn --budget 3s | nearfar show --budget 3s") == ["--budget"]
    assert unknown_options("nearfar train") == ["no command train"]
    assert unknown_options("--nonsense") == ["--nonsense"]
