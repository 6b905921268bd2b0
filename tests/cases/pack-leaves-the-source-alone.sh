# nodestage pack changed the mode, and so the change time, of a file that it might not read: it fails, and changes nothing.
mkdir d
echo x >d/a
echo y >d/secret
chmod 000 d/secret
before=$(stat -c '%Z %Y %a' d/secret)
code=0
nodestage pack d -o d.tar >.said 2>&1 || code=$?
[ "$code" != 0 ]
has "$(cat .said)" 'secret: cannot read: Permission denied' 'exclude=NAME'
[ "$(stat -c '%Z %Y %a' d/secret)" = "$before" ]
absent d.tar
# A directory that is closed to its user, such as lost+found, is named, with what can be done.
rm -f d/secret
mkdir -m 000 d/lost+found
if nodestage pack d -o d.tar >.said 2>&1; then exit 1; fi
has "$(cat .said)" 'lost+found: Permission denied' 'stage the directory itself without it: exclude=NAME'
absent d.tar
