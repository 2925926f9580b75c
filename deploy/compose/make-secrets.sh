#!/bin/sh
# Writes random secrets for postgresql.yaml into a folder, by default deploy/compose/secrets:
#
#   sh deploy/compose/make-secrets.sh
#
# Containers have users of their own, so the files are readable; the folder is not. Files that exist
# are not changed: PostgreSQL has stored their passwords.
set -eu
umask 022
here=${1:-$(dirname "$0")/secrets}
mkdir -p "$here"
chmod 0700 "$here"

write() { # NAME, with the content on standard input
    if [ -e "$here/$1" ]; then cat >/dev/null; else cat >"$here/$1"; fi
}
random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
service() { # NAME ROLE
    printf '[%s]\nhost=postgresql\ndbname=wirelake\nuser=%s\npassword=%s\n' \
        "$1" "$2" "$(cat "$here/postgresql-$1")"
}

for name in postgresql-superuser postgresql-owner postgresql-hub; do random | write "$name"; done
service owner wirelake_owner | write postgresql-owner-service
service hub wirelake_hub | write postgresql-hub-service
printf 'authorization { user: wirelake, password: "%s" }\n' "$(random)" | write nats-users
