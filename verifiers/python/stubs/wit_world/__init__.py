"""Stands in for the generated bindings of the world `exec-verifier`."""
