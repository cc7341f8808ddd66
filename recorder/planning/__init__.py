"""Whose each change is, which are applied, and what a rewind would do: pure, nothing is read or written."""
