#!/bin/bash
# For docs.bats and containers.bats: an image of busybox with a program `train`, in the forms that
# docs/containers.md names, in the directory $1 of the user who runs it.
set -e
work=$(mktemp -d)
cd "$work"
mkdir -p root/{bin,dev,etc,home,mnt,proc,root,sys,tmp,usr/local/bin}
cp /bin/busybox root/bin/
for name in cat chmod chown env find id ls mkdir sh sleep touch wc; do
    ln -s busybox "root/bin/$name"
done
touch root/etc/{passwd,group,hosts,resolv.conf}
cat >root/usr/local/bin/train <<'SH'
#!/bin/sh
# A stand-in for a training: train --data DIR --out DIR
[ "$(find "$2" -type f | wc -l)" = 300 ] || { echo "not 300 files in $2"; exit 1; }
mkdir -p "$4" && echo 1 >"$4/epoch1.pt" && echo 'epoch 1: 300 files'
SH
chmod 755 root/usr/local/bin/train
tar cf "$1/rootfs.tar" -C root .
mksquashfs root "$1/image.sqsh" -quiet -no-progress >/dev/null
export TMPDIR=$work
podman() { command podman --root "$work/podman" --runroot "$work/podman.run" --cgroup-manager=cgroupfs --log-level=error "$@"; }
podman import -q "$1/rootfs.tar" trainer >/dev/null
podman save -q -o "$1/image.tar" trainer
podman unshare rm -rf "$work/podman" "$work/podman.run"
cd / && rm -rf "$work"
