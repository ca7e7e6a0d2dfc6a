"""Neighbouring databases; the core's tests of its claims read `stability` from this folder."""
