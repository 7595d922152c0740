"""Working trees as people have them: each built by a script (bash) in an empty folder."""

from typing import Final

COMMON: Final = """\
set -eu
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=u GIT_AUTHOR_EMAIL=u@example.invalid GIT_COMMITTER_NAME=u GIT_COMMITTER_EMAIL=u@example.invalid
start() { git -c init.defaultBranch=main init -q .; }
keep() { git add -A && git commit -qm "$1"; }
echo 'print(1)' > train.py
"""

NESTED: Final = """\
start; keep first
mkdir vendor; cd vendor; start; echo x > v.py; keep vendored
"""
PLAIN: Final = ""
INSIDE_A_LARGER_ONE: Final = """\
start; keep first
mkdir -p exp/a; echo 'print(1)' > exp/a/train.py; keep experiment; echo dirty > unrelated.txt
"""
LINE_ENDS: Final = r"""
start; keep first
printf 'line1\r\nline2\r\n' > win.txt; keep crlf; echo '*.txt text' > .gitattributes
git add .gitattributes; git commit -qm attributes
touch win.txt; rm -f .git/index; git reset -q
"""
MODES: Final = r"""
start
printf '#!/bin/sh\n' > train.sh; chmod 755 train.sh; printf x > data.bin; chmod 600 data.bin
mkdir bin; printf '#!/bin/sh\n' > bin/run; chmod 4755 bin/run; keep modes
"""
HARD_NAMES: Final = r"""
start
touch -- '-rf' '--help' ' lead' 'trail ' 'a b c.py' $'new\nline.py' $'tab\t.py' 'quote"s.py' "apos'.py" 'star*.py'
touch -- 'back\slash.py' '~' '$HOME' '%2e%2e' 'semi;rm.py' $'bell\a.txt'; keep names
"""
UNICODE: Final = r"""
start
printf 1 > $'caf\u00e9.txt'; printf 2 > $'cafe\u0301.txt'; printf 3 > '训练数据.py'; printf 4 > $'\U1F680.md'
printf 5 > $'\uFB01.txt'; keep unicode
"""
LONG_PATHS: Final = r"""
start
p=.; for i in $(seq 1 14); do p=$p/dddddddddddddddddddddd$i; done; mkdir -p "$p"; printf x > "$p/file.py"
printf y > "$(printf 'n%.0s' $(seq 1 255))"; keep long
"""
SPECIAL: Final = """\
start; keep first
mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("app.sock")'; ln train.py hard.py
"""
NEGATIONS: Final = r"""
start
printf 'data/*\n!data/keep.json\n*.log\n!important.log\nbuild/\n!build/x.py\n**/cache/**\n' > .gitignore
mkdir -p data build a/cache sub
touch data/big.bin data/keep.json x.log important.log build/x.py a/cache/z sub/y.log secret.txt
printf '!*.log\n' > sub/.gitignore; printf 'secret.txt\n' > .git/info/exclude; keep ignoring
"""
SECRETS: Final = r"""
start; keep first
printf 'HF_TOKEN=hf_madeup\n' > .env; mkdir .ssh; printf key > .ssh/id_ed25519; printf '{}' > wandb-settings.json
mkdir -p .venv/lib __pycache__ wandb/run-1; touch .venv/lib/a.py __pycache__/a.pyc wandb/run-1/x
"""
GROWING: Final = r"""
start; keep first
(while [ ! -e stop ]; do printf '%s\n' "$RANDOM" >> grow.log; done) </dev/null >/dev/null 2>&1 &
echo $!
"""
