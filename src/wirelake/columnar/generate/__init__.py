"""Kernels from declarations: the source of the functions that decode many messages in one call."""
