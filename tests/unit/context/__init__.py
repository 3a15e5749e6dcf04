"""Tests of the context room, by values and properties."""
