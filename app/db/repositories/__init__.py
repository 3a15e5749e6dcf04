"""The queries, one noun a file; each function runs in a transaction that its caller has opened."""
