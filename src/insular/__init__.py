"""insular: every record an island. Evidence for privacy claims about language models."""

__version__ = "0.1.0"
