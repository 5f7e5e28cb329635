"""Frozen values that every layer may hold: no I/O, no clock, no Kubernetes JSON."""
