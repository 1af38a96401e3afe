"""The files and commands of the tests of the command line."""

from cli.conftest import document, fail, few_learners, files, folder, iris, run

__all__ = ["document", "fail", "few_learners", "files", "folder", "iris", "run"]
