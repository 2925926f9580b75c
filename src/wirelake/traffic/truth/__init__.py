"""What really happened: the tables that a reader of the simulated captures must find."""
