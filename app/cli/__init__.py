"""The command line: `palimpsest serve`, `run`, `compact`, `eval`, `sessions`, `db` and `doctor`.

Commands import what they need when they run, so that `--help` does not wait for the server's imports.
"""

from app.cli.commands import app as app
from app.cli.commands import main as main
