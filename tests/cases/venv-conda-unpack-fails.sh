# A conda-unpack that fails shows its own words, and nobody is told to run pip.
mkdir -p c/bin c/conda-meta
ln -s /usr/bin/python3 c/bin/python
echo 'raise SystemExit("no room for the prefix")' >c/bin/conda-unpack
tar czf c.tar.gz -C c .
says --stage-venv=c.tar.gz -- true
[ "$code" != 0 ]
has "$said" 'conda-unpack exited with code 1' '| no room for the prefix' 'run bin/conda-unpack there'
lacks "$said" pip
