"""The sources of `vectors.json`."""
