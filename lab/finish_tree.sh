#!/bin/bash
# finish_tree.sh TREE NAME:UID…    the last step of building a tree: its people, and one place for the database
set -eu
tree=$1
shift
for user in "$@"; do
  chroot "$tree" useradd --uid "${user#*:}" --user-group --create-home --shell /bin/bash "${user%:*}"
done
# From forky on, MariaDB's files are in a folder of another name.
[ -d "$tree/var/lib/mysql" ] || mv "$tree/var/lib/mariadb" "$tree/var/lib/mysql"
[ -d "$tree/var/lib/mysql/mysql" ] || { echo "E: the package of MariaDB made no database" >&2; exit 1; }
