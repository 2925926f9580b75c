"""Developer tools, which are not part of the package.

- `pages`: generates the pages of the reference.
- `screenshots`, `terminal`, `chromium`: the pictures of README and docs, and their parts.
"""
