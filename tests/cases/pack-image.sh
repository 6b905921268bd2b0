# nodestage pack --image: mksquashfs makes the image, of a directory or a tar. It is there as a whole or not at all.
mkdir -p d/sub
echo a >d/a
seq 1 50000 >d/sub/numbers
nodestage pack --image d.sqsh d >.said
has "$(cat .said)" 'd.sqsh: '
unsquashfs -q -n -d out d.sqsh >.log
same d out
# Equal trees with equal times give equal images, at whatever time they are packed.
sleep 1.1
nodestage pack --image again.sqsh d/ >.log
cmp d.sqsh again.sqsh
code=0
nodestage pack --image d.sqsh d >.said 2>&1 || code=$?
[ "$code" = 1 ]
has "$(cat .said)" 'd.sqsh: already exists' '--force replaces it'
echo more >d/more
nodestage pack --force --image d.sqsh d >.log
has "$(unsquashfs -ls d.sqsh)" squashfs-root/more
# Of a tar, whatever compresses it.
tar cf d.tar d
gzip -k d.tar
for tar in d.tar d.tar.gz; do
    rm -rf from.sqsh out
    nodestage pack --image from.sqsh "$tar" >.log
    unsquashfs -q -n -d out from.sqsh >.log
    same d out/d
done
# What fails leaves nothing, and says why.
head -c 9000 d.tar.gz >cut.tar.gz
head -c 9000 d.tar >cut.tar
echo text >text
mkdir closed
echo secret >closed/file
chmod 000 closed/file
refuses() {
    code=0
    nodestage pack --image no.sqsh "$1" >.said 2>&1 || code=$?
    [ "$code" = 1 ]
    has "$(cat .said)" "$2"
    [ -z "$(find . -name 'no.sqsh' -o -name '.nodestage*')" ]
}
refuses cut.tar.gz 'cut off after'
refuses cut.tar 'mksquashfs: '
refuses text 'neither a directory nor a tar'
refuses closed 'closed/./file'
refuses missing 'missing: No such file'
for words in '--image d.tar d' '--image no.sqsh -o d.tar.zst d' '--image no.sqsh --dereference d' '--image d/no.sqsh d'; do
    code=0
    # shellcheck disable=SC2086
    nodestage pack $words >.said 2>&1 || code=$?
    [ "$code" = 2 ]
done
# A signal ends the program, too.
mkdir big
for i in 1 2 3 4; do head -c 100M /dev/urandom >"big/$i"; done
nodestage pack --image no.sqsh big >.said 2>&1 &
until [ -n "$(find . -name '.nodestage-pack-*')" ]; do sleep 0.02; done
kill -TERM $!
code=0
wait $! || code=$?
[ "$code" = 143 ]
has "$(cat .said)" 'stopped by signal 15'
[ -z "$(find . -name 'no.sqsh' -o -name '.nodestage*')" ]
