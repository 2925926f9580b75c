"""Several hubs on one PostgreSQL database."""
