"""Preemption: who leaves for a pod of higher priority, and the course of it."""
