"""``insular hidden store``: a vector index whose writes are released states."""
