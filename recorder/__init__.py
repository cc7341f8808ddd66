"""The write side: facts in, the engine's primitives, plan and apply. It never prints and never asks."""

__version__ = "0.1.0"
