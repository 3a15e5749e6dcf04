"""The command line, `palimpsest`.

A command imports what it needs when it runs, so that `--help` does not wait for a server's imports.
"""

from app.cli.commands import app as app
from app.cli.commands import main as main
