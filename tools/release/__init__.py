"""What `tools/release_check.py` looks at: the texts of the source, wheels and sdists, licences; and the bill of materials."""
