"""Tests of the room of model providers."""
