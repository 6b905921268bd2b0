# shellcheck shell=bash
# For the bats files that run playbooks, here and in tests/machine: how Ansible enters their hosts.

# ansible_enters_by COMMANDS: instead of ssh, Ansible runs these bash commands, with the host in $1 and the command for
# the host's shell in $2. Its inventory and its own files are in BATS_FILE_TMPDIR.
ansible_enters_by() {
    export ANSIBLE_HOME=$BATS_FILE_TMPDIR/ansible ANSIBLE_NOCOLOR=1 ANSIBLE_PIPELINING=1 ANSIBLE_SSH_TRANSFER_METHOD=piped \
        ANSIBLE_SSH_ARGS='' ANSIBLE_INVENTORY=$BATS_FILE_TMPDIR/inventory.yml ANSIBLE_DEPRECATION_WARNINGS=0 \
        ANSIBLE_SSH_EXECUTABLE=$BATS_FILE_TMPDIR/ssh LC_ALL=C.UTF-8
    # They are the last two arguments of ssh.
    printf '#!/bin/bash\nset -- "${@: -2}"\n%s\n' "$1" >"$ANSIBLE_SSH_EXECUTABLE"
    chmod 0755 "$ANSIBLE_SSH_EXECUTABLE"
}
