"""`wirelake decode`.

- `command`: the command and its two views, a tree of fields or JSON.
- `messages`: splits a buffer into messages, continues after an invalid one, and decrypts sealed
  parts with the keys of `--keys`. Imported when the command runs.
"""
