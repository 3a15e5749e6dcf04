"""The database: commits, readers, migrations, and the rules that its statements keep."""
