"""`wirelake decode`.

- `command`: the command and its two views, a tree of fields or JSON.
- `messages`: splits a buffer into messages, and continues after an invalid one.
- `sealed_parts`: decrypts sealed parts with the keys of `--keys`.
"""
