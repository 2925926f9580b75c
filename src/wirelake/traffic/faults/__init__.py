"""Faults that are injected on purpose, each with the row of `faults` that a reader must produce.

fault_injection.py    which instances get a fault
fault_plan.py         the kinds of faults, and what the capture then contains
corruption.py         corrupt frames, as the protocol's decoder reports them
"""
