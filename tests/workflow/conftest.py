"""The files and commands of the tests of the command line."""

from cli.conftest import document, few_learners
from table_files import fail, files, folder, iris, run

__all__ = ["document", "fail", "few_learners", "files", "folder", "iris", "run"]
