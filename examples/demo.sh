#!/bin/sh
# Makes a small repository, runs the workflow of first-run/ in it, and shows what came of it.
#
# usage: sh examples/demo.sh [DIR]      (default: ./git-wf-demo, or the next free ./git-wf-demo-N)
set -eu

die() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

# Shows a command as it is typed, then runs it.
show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

here=$(CDPATH='' cd "$(dirname "$0")" && pwd -P)
command -v git-wf >/dev/null 2>&1 || die "git-wf is not on PATH" "sh install.sh --demo installs it first"

if [ $# -gt 0 ]; then
    place=$1
    [ ! -e "$place" ] || die "'$place' is there already" "name another directory"
else
    place=git-wf-demo
    number=2
    while [ -e "$place" ]; do
        place=git-wf-demo-$number
        number=$((number + 1))
    done
fi

# A repository of its own, whatever repository or hook this is called from.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX GIT_OBJECT_DIRECTORY GIT_COMMON_DIR
mkdir -p "$place"
git init --quiet "$place"
cp "$here/first-run/workflow.dot" "$here/first-run/run.toml" "$place"
printf '# Greeter\n\nA program that greets, made by a workflow.\n' >"$place/README.md"
(
    cd "$place"
    git symbolic-ref HEAD refs/heads/main
    # An identity in this repository only, for those who have none yet.
    git config user.name >/dev/null || git config user.name "git-wf demo"
    git config user.email >/dev/null || git config user.email "demo@localhost"
    git config commit.gpgSign false
    git add .
    git commit --quiet -m "A greeter is wanted"

    printf 'a new repository: %s\n' "$PWD"
    show git wf run run.toml
    run=$(git for-each-ref --count=1 --sort=-committerdate --format='%(refname:lstrip=4)' refs/heads/wf/run)
    [ -n "$run" ] || die "the run left no branch" "git wf run run.toml -v"
    show git --no-pager wf log "$run"

    printf '\nThree commands to try next, after: cd %s\n\n' "$place"
    try() {
        printf '    %-54s # %s\n' "$1" "$2"
    }
    try "git wf show test@1" "what the failing test saw, and left behind"
    try "git diff main wf/run/$run" "what the run changed, all in all"
    try "git wf rewind build && git wf resume" "back to after 'build', and on from there"
)
