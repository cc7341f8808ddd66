"""Bringing a plan onto the disk so that no save is lost, rolling it back, and recovery after a crash."""
