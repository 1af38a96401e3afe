"""Beside the papers: error against seconds of nearfar's learners and of other libraries."""
