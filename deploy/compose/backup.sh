#!/bin/sh
# Copies the database of PGHOST into BACKUP_FOLDER every BACKUP_EVERY_S seconds, and keeps the newest BACKUP_KEEP copies.
# They have the names and the form of those of `tapestry backup`; `tapestry restore` and pg_restore read them.
set -u

copy() {
    target="$BACKUP_FOLDER/tapestry-$(date -u +%Y%m%dT%H%M%SZ).dump"
    if pg_dump --format=custom --no-password --lock-wait-timeout=30s --file="$target.partial"; then
        mv "$target.partial" "$target" # it appears whole or not at all
        echo "$target: complete"
        ls "$BACKUP_FOLDER"/tapestry-*Z.dump | sort -r | tail -n "+$((BACKUP_KEEP + 1))" | xargs -r rm --
        return 0
    fi
    rm -f "$target.partial"
    echo "no copy was made" >&2
    return 1
}

trap 'exit 0' TERM INT
while :; do
    copy
    made=$?
    if [ "$BACKUP_EVERY_S" -eq 0 ]; then exit "$made"; fi # once, for a scheduler that repeats it
    if [ "$made" -eq 0 ]; then pause=$BACKUP_EVERY_S; else pause=60; fi
    sleep "$pause" &
    wait $!
done
