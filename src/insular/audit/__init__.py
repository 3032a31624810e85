"""Audits: run a training stack and say whether one record can touch another's contribution."""
