# nodestage pack changed the mode, and so the change time, of a file that it might not read: it fails, and changes nothing.
mkdir d
echo x >d/a
echo y >d/secret
chmod 000 d/secret
before=$(stat -c '%Z %Y %a' d/secret)
code=0
nodestage pack d -o d.tar >.said 2>&1 || code=$?
[ "$code" != 0 ]
has "$(cat .said)" 'secret: cannot read: Permission denied'
[ "$(stat -c '%Z %Y %a' d/secret)" = "$before" ]
absent d.tar
