"""The tests and what they share: `tests.kit`, `tests.oracle`, `tests.attack`."""
