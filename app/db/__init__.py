"""The database: its tables, its connections to SQLite or Postgres, the writer and the queries."""
