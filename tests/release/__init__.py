"""What is released: the files of a distribution, and the wheel alone."""
