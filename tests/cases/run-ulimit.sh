# Limits of the user's shell were taken for the node's disk, or for a broken installation.
head -c 3M /dev/urandom >big
said=$(ulimit -f 1000; says --stage-dataset=big -- true)
has "$said" 'File too large' '`ulimit -f`'
lacks "$said" "local disk; if it happens again"
said=$(ulimit -n 20; says --stage-dataset=big -- true)
has "$said" 'only 20 files may be open at once' 'ulimit -n 1024'
