"""Tests of the context package, by values and properties."""
