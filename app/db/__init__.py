"""The database: tables, connections, one writer with group commits, and the queries in `repositories/`."""

from app.db.engine import Database, open_database

__all__ = ["Database", "open_database"]
