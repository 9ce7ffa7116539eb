#!/bin/bash
# enter_tree.sh TREE FOLDER PATH… -- COMMAND…    run a command in a Debian tree, in mounts of our own
# FOLDER is /srv inside, each PATH of this machine is /srv/machine/PATH; nothing else can be written to.
set -eu
tree=$1 folder=$2
shift 2
mount --bind "$tree" "$tree"
mount -o remount,bind,ro "$tree"     # shared with the labs
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"
mount --rbind /dev "$tree/dev"
mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
mount --bind "$folder" "$tree/srv"
for name in hosts resolv.conf; do mount --bind "/etc/$name" "$tree/etc/$name"; done
while [ "$1" != -- ]; do
  mount --bind "$1" "$tree/srv/machine$1"
  shift
done
shift
exec chroot "$tree" /usr/bin/env -C /srv "$@"
