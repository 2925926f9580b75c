"""The command `wirelake`: one file for each of its commands, none imported before it is used."""
