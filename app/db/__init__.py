"""The database: its tables, its connections, the one writer and the queries."""
