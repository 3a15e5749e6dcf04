"""The queries by subject; each function runs in a transaction that its caller has opened."""
