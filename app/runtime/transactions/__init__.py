"""The transactions: everything that is written to the database, each with its events."""
