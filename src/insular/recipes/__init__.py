"""From a spec to a wired run to evidence: the only place where sibling packages meet."""
