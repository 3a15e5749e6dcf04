"""Compaction: makes a conversation's context smaller before it outgrows its model's window."""
