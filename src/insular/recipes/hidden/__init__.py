"""``insular hidden``: released hidden states; a package for each command."""
