"""The database: commits, readers, migrations, and the rules of its statements."""
