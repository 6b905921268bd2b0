# A FIFO or socket among a glob's matches failed the job: it is left out with a note, as in a directory.
mkdir d
echo x >d/a
echo y >d/b
mkfifo d/pipe
ln -s pipe d/link
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("d/socket")'
says --stage-dataset='d/*:in' -- sh -c 'ls "$NODESTAGE_DATASET" | xargs'
[ "$code" = 0 ]
has "$said" '3 FIFOs, sockets or devices left out' 'a b'
says --stage-dataset='d/p*' -- true
[ "$code" != 0 ]
has "$said" 'only FIFOs, sockets or devices match'
