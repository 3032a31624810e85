"""How often natural text takes the path that couples records."""
