"""Print a version and the public names of every module: its `__all__`, or what its stub imports."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def public_names() -> list[str]:
    """Return the names in `__all__` of every module, read from the source, and those of stubs."""
    names = []
    for path in sorted(SOURCE.rglob("__init__.pyi")):
        module = ".".join(path.parent.relative_to(SOURCE).parts)
        imports = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ImportFrom)]
        names += [f"{module}.{alias.name}" for node in imports for alias in node.names]
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found = ast.literal_eval(node.value)
                names += [f"{module.removesuffix('.__init__')}.{name}" for name in found]
    return sorted(names)


if __name__ == "__main__":
    print(*sys.argv[1:], *public_names(), sep="\n")
