#!/bin/bash
# beside.sh TREE PYTHON REPOSITORY    hold a machine beside the lab's daemons: their Slurm, and places to install to
# To be run in namespaces of its own, made from the lab's: nothing of it is seen by the lab.
set -eu
tree=$1 python=$2 repository=$3
mount --make-rprivate /
for folder in opt usr/local var/backups var/cache var/lib; do
  space=$tree/tmp/beside/$folder
  mkdir -p "$space/upper" "$space/work"
  mount -t overlay overlay -o "lowerdir=$tree/$folder,upperdir=$space/upper,workdir=$space/work" "$tree/$folder"
done
mount --bind "$python" "$tree/media"
mkdir -p "$tree/usr/local/src/forewarn" "$tree/opt/forewarn/bin"
mount --bind "$repository" "$tree/usr/local/src/forewarn"
mount -o remount,bind,ro "$tree/usr/local/src/forewarn"
# Stands for part 1 of docs/serving-site.md: the packages of the tests' own environment.
cat > "$tree/opt/forewarn/bin/forewarn" <<'END'
#!/bin/sh
repository=/usr/local/src/forewarn
export LD_LIBRARY_PATH=/media/lib PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$repository/src:$(echo $repository/.venv/lib/python3*/site-packages)
exec /media/bin/python3 -m forewarn "$@"
END
chmod 755 "$tree/opt/forewarn/bin/forewarn"
echo ready
exec chroot "$tree" sleep infinity
