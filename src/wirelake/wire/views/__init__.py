"""What else a declaration gives: schemas, dissectors, reference pages, formats, test data.

Every module here reads `model.py` and nothing else about a protocol. Import them one by one: some
need an extra (pyarrow, Hypothesis) that the core does not.
"""
