"""Tests of the sandboxes."""
