"""What others do with the same conversations; none of them is needed to use or to build Ullage."""
