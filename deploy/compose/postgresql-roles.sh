#!/bin/sh
# Roles and rights for hubs in a new PostgreSQL, as in docs/guides/postgresql.md. The image of
# PostgreSQL runs this once, as the superuser; the database is there already. Passwords are read
# from files and quoted by psql; they are in no command line.
set -eu
secrets=${SECRETS:-/run/secrets}

psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname "$POSTGRES_DB" <<SQL
\set owner_password \`cat '$secrets/postgresql-owner'\`
\set hub_password \`cat '$secrets/postgresql-hub'\`
CREATE ROLE wirelake_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE wirelake_hub LOGIN PASSWORD :'hub_password';
ALTER DATABASE :"DBNAME" OWNER TO wirelake_owner;
REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME" TO wirelake_hub;
CREATE SCHEMA wirelake AUTHORIZATION wirelake_owner;
GRANT USAGE ON SCHEMA wirelake TO wirelake_hub;
ALTER DEFAULT PRIVILEGES FOR ROLE wirelake_owner IN SCHEMA wirelake
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO wirelake_hub;
SQL
