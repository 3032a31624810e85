"""How far one added record moves the clipped sum."""
