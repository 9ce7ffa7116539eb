#!/bin/bash
# enter USER COMMAND ARGUMENT…    run a command inside the lab that this file belongs to
state=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
user=${1:?usage: enter USER COMMAND ARGUMENT…}
shift
read -r holder _ 2>/dev/null <"$state/holder.pid" || { echo "lab: not up: $state" >&2; exit 1; }
home=/home/$user
[ "$user" != root ] || home=/root
case $PWD/ in "$state"/home/*) folder=${PWD#"$state"} ;; *) folder=$home ;; esac
# What people set to steer Slurm's commands goes in with them; the rest of the environment stays outside,
# and so do a token, which would make every command that user's, and another cluster's configuration.
unset SLURM_JWT SLURM_CONF
kept=()
for name in "${!SLURM_@}" "${!SBATCH_@}" "${!SQUEUE_@}" "${!SACCT_@}" "${!SINFO_@}"; do kept+=("$name=${!name}"); done
exec nsenter --target "$holder" --mount --uts --pid --root -- \
  /usr/bin/env -i -C "$folder" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash ${TZ:+"TZ=$TZ"} "${kept[@]}" \
  /usr/bin/setpriv --reuid "$user" --regid "$user" --init-groups -- "$@"
