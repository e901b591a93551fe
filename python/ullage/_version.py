"""The version as a constant: reading the installed metadata took most of the time of `import ullage`."""

VERSION = "0.1.0"
"""Equal to the version in `Cargo.toml`, which the wheel and the extension use."""
