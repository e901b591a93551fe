"""Ullage keeps room in an LLM agent's context window."""

from __future__ import annotations
