"""`wirelake doctor`: checks of a machine, with advice for each failure.

`checks.py` lists them, `places.py` checks folders, disks and ports, `programs.py` runs programs in
processes of their own, `trial.py` is the Spark job among them. Nothing here imports pyspark before
the checks for it have passed.
"""
