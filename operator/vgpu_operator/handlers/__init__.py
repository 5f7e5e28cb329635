"""Kopf: watch events of Nodes and Pods, start and end of the operator."""
