"""The command line: parse, call a recipe, print."""
