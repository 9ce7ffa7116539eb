#!/bin/bash
# enter_copy.sh TREE FOLDER COMMAND…    run a command in a Debian tree that it may change, without changing it
# FOLDER is /mnt inside, read-only. What is written is kept in memory and ends with the mounts.
set -eu
tree=$1 folder=$2
shift 2
space=$(mktemp -d)
mount -t tmpfs tmpfs "$space"
mkdir "$space/upper" "$space/work" "$space/root"
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$space/upper,workdir=$space/work" "$space/root"
root=$space/root
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$folder" "$root/mnt"
mount -o remount,bind,ro "$root/mnt"
exec chroot "$root" /usr/bin/env -C / "$@"
