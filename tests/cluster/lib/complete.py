#!/usr/bin/env python3
"""Types lines into an interactive shell with the completion of an installation, and prints what becomes of them.

complete.py bash|zsh|fish STAGE LINE...

In a LINE, "^" is the key for completion. Each line is run: Slurm's commands and nodestage are functions that print
their arguments, <one> in <each>. With zsh, "? WORD" lines before it are the words that were offered.
"""
import os
import pty
import select
import sys
import time

LIMIT_S = 120

BASH = """
PS1='$ '
[ -z "$SLURM_COMPLETION" ] || . "$SLURM_COMPLETION"
. /usr/share/bash-completion/bash_completion
. "$STAGE/etc/bash_completion.d/zz-nodestage"
bind 'set enable-bracketed-paste off'
"""
STUBS = """
for name in sbatch srun salloc squeue nodestage; do eval "$name() { printf '<%s>' \\"\\$@\\"; echo; } >>'$OUT'"; done
"""
ZSH = """
PS1='$ '
fpath=("$STAGE"/usr/share/zsh/*-*(/) $fpath)
autoload -Uz compinit && compinit -u -D
zstyle ':completion:*' insert-tab false
unset zle_bracketed_paste
setopt no_auto_menu
compadd() {
    local -a offered
    if [[ -z ${(M)@:#-[OAD]*} ]]; then
        builtin compadd -A offered "$@"
        (($#offered)) && printf '? %s\\n' $offered >>$OUT
    fi
    builtin compadd "$@"
}
"""
FISH = """
function fish_prompt; echo '$ '; end
function fish_greeting; end
for name in sbatch srun salloc nodestage
    function $name; printf '<%s>' $argv >>$OUT; echo >>$OUT; end
end
"""


def start(shell, stage, scratch):
    rc = {"bash": ("rc", BASH + STUBS), "zsh": (".zshrc", ZSH + STUBS), "fish": ("fish/config.fish", FISH)}[shell]
    path = os.path.join(scratch, rc[0])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(rc[1])
    words = {"bash": ["bash", "--noprofile", "--rcfile", path, "-i"], "zsh": ["zsh", "-d", "-i"], "fish": ["fish", "-i"]}[shell]
    os.environ.update(STAGE=stage, TERM="dumb", ZDOTDIR=scratch, XDG_CONFIG_HOME=scratch, XDG_CACHE_HOME=scratch,
                      XDG_DATA_HOME=scratch, XDG_DATA_DIRS=f"{stage}/usr/share:/usr/local/share:/usr/share",
                      OUT=os.path.join(scratch, "out"), LC_ALL="C.UTF-8")
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(words[0], words)
    return child, terminal


def main():
    shell, stage, lines = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    scratch = os.environ["BATS_TEST_TMPDIR"] + "/" + shell
    os.makedirs(scratch, exist_ok=True)
    open(scratch + "/out", "w", encoding="utf-8").close()
    child, terminal = start(shell, stage, scratch)
    end, seen, typed = time.monotonic() + LIMIT_S, b"", False
    text = "".join(line.replace("^", "\t") + "\r" for line in lines) + "exit\r"
    try:
        while time.monotonic() < end:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            seen += os.read(terminal, 65536)
            if b"$ " in seen and not typed:
                typed = True
                os.write(terminal, text.encode())
    except OSError:  # the shell is gone
        pass
    else:
        os.kill(child, 9)
        sys.stderr.write(seen.decode(errors="replace"))
        sys.exit(f"{shell} does not end")
    os.waitpid(child, 0)
    if os.environ.get("SHOW"):
        sys.stderr.write(seen.decode(errors="replace"))
    with open(scratch + "/out", encoding="utf-8") as file:
        sys.stdout.write(file.read())


main()
