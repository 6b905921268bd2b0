# A requirement that is an address, and a variable that the build does not have: the cause, before pip's traceback.
echo 'demo @ https://me:secret@example.com/demo-1-py3-none-any.whl' >address.txt
says --stage-venv=address.txt -- true
[ "$code" != 0 ]
has "$said" "https://****@example.com/demo-1-py3-none-any.whl' is downloaded" 'give wheels=DIR'
lacks "$said" Traceback secret
echo 'demo @ https://example.com/demo-1-py3-none-any.whl ; python_version >= "3"' >marked.txt
says --stage-venv=marked.txt -- true
has "$said" "' is downloaded, and an environment is built on a node without a network"
echo '${WHEELS}/demo-1-py3-none-any.whl' >variable.txt
says --stage-venv=variable.txt -- true
has "$said" 'the build has no variable ${WHEELS}'
lacks "$said" Traceback
