"""Tables: learn, predict, compare, export and report, with their commands."""
