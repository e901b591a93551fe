"""Neighbours."""

VECTORS = []
