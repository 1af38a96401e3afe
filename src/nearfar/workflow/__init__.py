"""The workflow as functions: what the commands do, for Python."""
