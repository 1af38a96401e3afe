"""``python -m nearfar.cli`` is ``nearfar``."""

from nearfar.cli import main

main()
