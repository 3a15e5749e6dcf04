"""The transactions: each change of a session, with its events, as one write to the database."""
