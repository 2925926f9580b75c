"""`wirelake demo`: a hub, simulated clients, a lake on Spark, and a comparison with the truth.

    command.py                    options and output
    run.py                        the steps of the demo
    checks.py                     requirements
    hub.py, lake.py               the hub process and its counters; the lake that follows it
    processes.py                  child processes and signals
    display.py                    steps and live figures
    report.py, samples.toml       results, what to try next, and `--tour`: sample messages

It names no protocol: listeners come from the hub's configuration, samples from a data file. Nothing
here is imported before the command runs.
"""
