"""The section on how to use the metric: code that works on the rows at hand."""

from __future__ import annotations

import shlex

from nearfar.report.blocks import Block, Code, Section
from nearfar.report.study import Study
from nearfar.runtime.optional_package import suggested_ending


def usage_section(study: Study) -> Section:
    """Return code that loads the metric, and maps rows."""
    file = study.metric_file or "metric.safetensors"
    rows = "X" if study.metric.columns is None else "table"
    what = "compare these rows by" if rows == "X" else "rows of a DataFrame, to compare by"
    python = (
        "from nearfar import Metric\n\n"
        f"metric = Metric.load({file!r})\n"
        f"mapped = metric.transform({rows})   # {what} Euclidean distance\n"
        f"metric.distances({rows}, {'Y' if rows == 'X' else 'other'})\n"
    )
    name, source = shlex.quote(file), shlex.quote(study.source or "table.csv")
    ids = f" --id {shlex.quote(study.id_column)}" if study.id_column else ""
    shell = (
        f"nearfar show {name}\n"
        f"nearfar transform {name} {source} mapped{suggested_ending()}{ids}\n"
        f"nearfar neighbors {name} {source}{ids}\n"
    )
    if study.label:
        shell += f"nearfar predict {name} {source} NEW.csv --label {shlex.quote(study.label)}\n"
    blocks: list[Block] = [Code("Python", python), Code("Shell", shell)]
    if (code := without_nearfar(study)) is not None:
        blocks.append(Code("Without nearfar", code))
    return Section("Use the metric", "usage", blocks)


def without_nearfar(study: Study) -> str | None:
    """Return Python code that maps the rows without nearfar; None if a few lines cannot.

    A metric with a kernel or a gate is not one map, and the columns of a table may need more than
    reading.
    """
    metric = study.metric
    if not metric.is_linear or metric.columns is not None or study.rows_code is None:
        return None
    file = study.metric_file or "metric.safetensors"
    reading = study.rows_code.splitlines()
    imports = {line for line in reading if line.startswith("import ")}
    body = [f"with safe_open({file!r}, 'numpy') as file:", "    L = file.get_tensor('L')"]
    if any("[names]" in line for line in reading):
        imports.add("import json")
        body.append("    names = json.loads(file.metadata()['feature_names'])")
    body += [line for line in reading if line not in imports]
    if metric.unit_rows:
        imports.add("import numpy as np")
        body.append("X = X / np.linalg.norm(X, axis=1, keepdims=True)")
    shape = f"{metric.n_features} features to {metric.n_components}"
    body.append(f"mapped = X @ L.T   # {shape}")
    return "\n".join([*sorted(imports), "from safetensors import safe_open", "", *body, ""])
