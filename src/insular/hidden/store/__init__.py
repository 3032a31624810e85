"""A vector index whose writes are released states, and what it still tells."""
