"""The version, where reading it costs nothing: asking the installed metadata took most of the time of `import ullage`."""

VERSION = "0.1.0"
"""The same as in `Cargo.toml`, from which the wheel and the extension have theirs."""
