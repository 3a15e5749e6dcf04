"""The queries, one noun a file. Each function runs on a connection of a transaction that its caller has opened."""
