"""The queries, one noun per file. Each function runs in a transaction that its caller has opened."""
