"""Attackers who look for a prompt in a bank of candidates, and what they will find."""
