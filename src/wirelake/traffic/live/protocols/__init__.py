"""Live clients, one module per protocol; each declares its populations as `POPULATIONS`."""
