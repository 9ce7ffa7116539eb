#!/bin/bash
# PID 1 of a lab: puts the tree and the lab's own folders together, then holds the namespaces open.
# Everything of the lab runs below it, so when it ends the kernel ends all the rest.
#   holder.sh STATE TREE FOLDER…    (FOLDERs are paths below both)
set -eu
state=$1 tree=$2
shift 2
mount --bind "$tree" "$tree"
mount -o remount,bind,ro "$tree"     # shared with other labs
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"       # slurmd makes cgroups for its jobs
mount --rbind /dev "$tree/dev"
mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
for folder in "$@"; do mount --bind "$state/$folder" "$tree/$folder"; done
hostname slurmlab
# `wait` also collects the daemons that end: they are its children as soon as their starter has gone.
exec chroot "$tree" /bin/bash -c 'touch /run/lab/ready; trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done' lab-holder
