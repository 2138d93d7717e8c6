#!/bin/sh
# Installs git-wf for the user who calls it: no root, nothing outside the home directory or --prefix.
# Needs git, Python 3.10 or newer, and the usual file commands; runs in any POSIX shell.
set -eu

usage() {
    cat <<'TEXT'
usage: sh install.sh [options]
       sh install.sh --demo [DIR]
       sh install.sh --test [PYTEST-ARGUMENT...]
       sh install.sh --uninstall [--prefix DIR]

Installs git-wf from this checkout into a private Python environment, and links the command, its
man page and its shell completions to where your shell and man look. Call it again to upgrade.

  --prefix DIR   install below DIR (bin, share); default ~/.local
  --pipx, --uv   let pipx or uv keep the Python environment
  --dev          run from this checkout, with all that the tests need
  --demo [DIR]   install, then run an example workflow in a repository made at DIR
                 (default ./git-wf-demo)
  --test         make .venv in this checkout with all that the tests need, and run them;
                 installs nothing elsewhere. Further arguments go to pytest
  --uninstall    remove all that an installation made
  -v, --verbose  show what pip says
  -h, --help     this text

Environment: PYTHON names the Python to use.
TEXT
}

newline='
'
tab=$(printf '\t')

say() {
    printf '%s\n' "$*"
}

# die FAULT [HINT...]
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    for hint in "$@"; do
        printf 'hint: %s\n' "$hint" >&2
    done
    exit 1
}

# --- what was made: one record a line, `dir PATH`, `venv PATH`, `link PATH TARGET`, `how WAY` -----

records=''

record() {
    records="$records$1$newline"
    if [ -d "$home" ]; then
        printf '%s' "$records" >"$manifest"
    fi
}

load_records() {
    if [ -f "$manifest" ]; then
        records="$(cat "$manifest")$newline"
    fi
}

is_recorded() {
    case "$newline$records" in
        *"$newline$1$newline"*) return 0 ;;
    esac
    return 1
}

# The way in which the installation on record was made; nothing where there is none.
recorded_way() {
    way=''
    while IFS="$tab" read -r kind value _; do
        [ "$kind" != how ] || way=$value
    done <<RECORDS
$records
RECORDS
    printf '%s' "$way"
}

# Makes a directory with its parents, and records each that was not there.
make_dir() {
    [ ! -d "$1" ] || return 0
    make_dir "$(dirname "$1")"
    mkdir "$1" || die "cannot make the directory '$1'"
    record "dir$tab$1"
}

# Whether the link at $1 is one that we made, or that leads into the environment.
is_ours() {
    [ -L "$1" ] || return 1
    leads_to=$(readlink "$1")
    case $leads_to in "$environment"/*) return 0 ;; esac
    is_recorded "link$tab$1$tab$leads_to"
}

refuse_foreign() {
    if [ -e "$1" ] || [ -L "$1" ]; then
        is_ours "$1" || die "'$1' is there already and does not come from this installer" \
            "move it away, or choose another place with --prefix DIR"
    fi
}

# make_link TARGET PATH
make_link() {
    refuse_foreign "$2"
    make_dir "$(dirname "$2")"
    is_recorded "link$tab$2$tab$1" || record "link$tab$2$tab$1"
    if [ -L "$2" ]; then
        [ "$(readlink "$2")" != "$1" ] || return 0
        rm -f "$2"
    fi
    ln -s "$1" "$2"
}

# Removes the recorded links that lead nowhere: pages of an older version.
remove_stale_links() {
    while IFS="$tab" read -r kind path _; do
        if [ "$kind" = link ] && [ ! -e "$path" ] && is_ours "$path"; then
            rm -f "$path"
        fi
    done <<RECORDS
$records
RECORDS
}

# Removes all that is on record; what is not ours, and directories that others use, stay.
remove_recorded() {
    reversed=''
    while IFS="$tab" read -r kind path _; do
        case $kind in
            link) ! is_ours "$path" || rm -f "$path" ;;
            dir) reversed="$path$newline$reversed" ;;
        esac
    done <<RECORDS
$records
RECORDS
    if [ -f "$venv/pyvenv.cfg" ] || is_recorded "venv$tab$venv"; then
        rm -rf "$venv"
    fi
    rm -f "$manifest"
    while IFS= read -r path; do
        [ -z "$path" ] || rmdir "$path" 2>/dev/null || :
    done <<DIRS
$reversed
DIRS
    records=''
}

# --- Python --------------------------------------------------------------------------------------

# The command that installs $1 (`python` or `venv`) on this system.
advice() {
    system=$(uname -s)
    family=''
    if [ -r /etc/os-release ]; then
        # shellcheck source=/dev/null
        family=$(. /etc/os-release && printf '%s %s' "${ID:-}" "${ID_LIKE:-}")
    fi
    case "$system $family" in
        *debian* | *ubuntu*)
            if [ "$1" = venv ]; then
                printf 'as root: apt-get install python3-venv'
            else
                printf 'as root: apt-get install python3 python3-venv'
            fi
            ;;
        *fedora* | *rhel* | *centos*) printf 'as root: dnf install python3.12' ;;
        *suse*) printf 'as root: zypper install python312' ;;
        *arch*) printf 'as root: pacman -S python' ;;
        *alpine*) printf 'as root: apk add python3' ;;
        Darwin*) printf 'brew install python3' ;;
        *) printf 'install Python 3.10 or newer with its venv module' ;;
    esac
}

version_of() {
    "$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null
}

is_new_enough() {
    case $(version_of "$1") in
        3.1[0-9] | 3.[2-9][0-9]) return 0 ;;
        *) return 1 ;;
    esac
}

works() {
    is_new_enough "$1" && "$1" -I -c 'import pip' >/dev/null 2>&1 </dev/null
}

can_make_venv() {
    "$1" -I -c 'import ensurepip, venv' >/dev/null 2>&1 </dev/null
}

# Sets `python`; ends with the reason where none fits.
pick_python() {
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11 python3.10 python
    fi
    old='' bare=''
    for name in "$@"; do
        found=$(command -v "$name" 2>/dev/null) || continue
        if [ -z "$(version_of "$found")" ]; then
            continue
        elif ! is_new_enough "$found"; then
            old=${old:-$found}
        elif ! can_make_venv "$found"; then
            bare=${bare:-$found}
        else
            python=$found
            return 0
        fi
    done
    if [ -n "$bare" ]; then
        die "Python $(version_of "$bare") at '$bare' has no venv module with pip (ensurepip)" \
            "$(advice venv)" "or let another tool keep the environment: --pipx, --uv"
    elif [ -n "$old" ]; then
        die "Python $(version_of "$old") at '$old' is too old: git-wf needs 3.10 or newer" \
            "$(advice python)" "PYTHON=/path/to/python3 sh install.sh names another one"
    elif [ -n "${PYTHON:-}" ]; then
        die "PYTHON='$PYTHON' is not a Python that can be run"
    fi
    die "Python 3.10 or newer is not installed" "$(advice python)"
}

# quietly FAULT HINT COMMAND...: shows what the command says only with --verbose; where it fails,
# ends with the fault, the command's reason, and the hint, if any.
quietly() {
    fault=$1
    advised=$2
    shift 2
    if [ "$verbose" = yes ]; then
        "$@" </dev/null || die "$fault" ${advised:+"$advised"}
        return 0
    fi
    if output=$("$@" 2>&1 </dev/null); then
        return 0
    fi
    reason='' last=''
    while read -r line; do
        case $line in
            ERROR:* | Error:*) reason=${reason:-${line#*: }} ;;
            ?*) last=$line ;;
        esac
    done <<OUTPUT
$output
OUTPUT
    die "$fault: ${reason:-$last}" ${advised:+"$advised"} \
        "call this again with --verbose to see all that was said"
}

# Makes the environment, or takes the one that is there if it still works.
make_venv() {
    if [ -e "$venv" ] || [ -L "$venv" ]; then
        [ -f "$venv/pyvenv.cfg" ] || is_recorded "venv$tab$venv" ||
            die "'$venv' is there already and is no Python environment"
        if works "$venv/bin/python"; then
            return 0
        fi
    fi
    pick_python
    fresh=yes
    say "making a Python environment in '$venv'"
    is_recorded "venv$tab$venv" || record "venv$tab$venv"
    quietly "Python at '$python' cannot make an environment" "$(advice venv)" \
        "$python" -I -m venv --clear "$venv"
}

# pip_install ARGUMENT...
pip_install() {
    # A cache that is not there yet is not begun: an installation leaves nothing outside its own.
    # By the environment, so that the pip that gets the build system hears it too.
    cache=$("$venv/bin/python" -I -m pip cache dir 2>/dev/null) || cache=''
    [ -d "$cache" ] || export PIP_NO_CACHE_DIR=1
    quietly "pip could not install git-wf" "" "$venv/bin/python" -I -m pip install --upgrade "$@"
}

# --- where things go -----------------------------------------------------------------------------

set_places() {
    is_default_place=no
    if [ -n "$prefix" ]; then
        case $prefix in
            /*) ;;
            *) prefix=$PWD/$prefix ;;
        esac
        prefix=${prefix%/}
        data=$prefix/share
        bash_dir=$data/bash-completion/completions
    else
        [ -n "${HOME:-}" ] || die "HOME is not set" "name a place: sh install.sh --prefix DIR"
        is_default_place=yes
        prefix=$HOME/.local
        data=${XDG_DATA_HOME:-$HOME/.local/share}
        bash_dir=${BASH_COMPLETION_USER_DIR:-$data/bash-completion}/completions
    fi
    bin=$prefix/bin
    man_dir=$prefix/share/man
    zsh_dir=$data/zsh/site-functions
    fish_dir=$data/fish
    home=$data/git-wf
    venv=$home/venv
    manifest=$home/installed
    environment=$venv
}

# each_link ACTION: calls it with (file in the checkout, file in the share/ of the environment, place)
each_link() {
    for file in "$here"/man/*.[1-9]; do
        [ -f "$file" ] || continue
        name=${file##*/}
        section=man${name##*.}
        "$1" "$file" "man/$section/$name" "$man_dir/$section/$name"
    done
    for file in "$here"/completions/*; do
        [ -f "$file" ] || continue
        name=${file##*/}
        case $name in
            *.bash)
                name=${name%.bash}
                "$1" "$file" "bash-completion/completions/$name" "$bash_dir/$name"
                ;;
            *.conf.fish)
                name=${name%.conf.fish}.fish
                "$1" "$file" "fish/vendor_conf.d/$name" "$fish_dir/vendor_conf.d/$name"
                ;;
            *.fish)
                "$1" "$file" "fish/vendor_completions.d/$name" "$fish_dir/vendor_completions.d/$name"
                ;;
            _*) "$1" "$file" "zsh/site-functions/$name" "$zsh_dir/$name" ;;
        esac
    done
}

check_place() {
    refuse_foreign "$3"
}

remove_if_ours() {
    if is_ours "$3"; then
        rm -f "$3"
        left="$left $3"
    fi
}

make_place() {
    make_dir "$(dirname "$3")"
}

link_installed() {
    make_link "$environment/share/$2" "$3"
}

link_checkout() {
    make_link "$1" "$3"
}

# --- installing ----------------------------------------------------------------------------------

check_tools() {
    command -v git >/dev/null 2>&1 || die "git is not installed" "git-wf needs git 2.38 or newer"
    case $how in
        pipx | uv)
            command -v "$how" >/dev/null 2>&1 ||
                die "$how is not installed" "sh install.sh without --$how needs only Python"
            ;;
    esac
}

# What an installation by another way left would stand in this one's way.
clear_other_way() {
    before=$(recorded_way)
    if [ -n "$before" ] && [ "$before" != "$how" ]; then
        quietly "$before could not uninstall git-wf" "" hand_back "$before"
        remove_recorded
        fresh=yes
    fi
}

install_environment() {
    case $how in
        venv)
            make_venv
            say "installing git-wf"
            if [ "$dev" = yes ]; then
                pip_install --editable "${here}[test]"
            else
                pip_install "$here"
            fi
            ;;
        pipx)
            say "installing git-wf with pipx"
            set -- install --force "$here"
            [ -z "${PYTHON:-}" ] || set -- "$@" --python "$PYTHON"
            quietly "pipx could not install git-wf" "" \
                env PIPX_BIN_DIR="$bin" PIPX_MAN_DIR="$man_dir" pipx "$@"
            ;;
        uv)
            say "installing git-wf with uv"
            set -- tool install --force --reinstall-package git-wf "$here"
            [ -z "${PYTHON:-}" ] || set -- "$@" --python "$PYTHON"
            quietly "uv could not install git-wf" "" \
                env UV_TOOL_BIN_DIR="$bin" uv "$@"
            ;;
    esac
}

# hand_back WAY: has the other tool remove its environment.
hand_back() {
    case $1 in
        pipx) env PIPX_BIN_DIR="$bin" PIPX_MAN_DIR="$man_dir" pipx uninstall git-wf ;;
        uv) env UV_TOOL_BIN_DIR="$bin" uv tool uninstall git-wf ;;
    esac
}

find_environment() {
    case $how in
        pipx) environment=$(pipx environment --value PIPX_LOCAL_VENVS)/git-wf ;;
        uv) environment=$(uv tool dir)/git-wf ;;
    esac
}

# Runs at every exit: a first installation that did not succeed leaves nothing.
finish() {
    status=$?
    trap - EXIT
    if [ "$unfinished" = yes ] && [ "$fresh" = yes ]; then
        hand_back "$how" >/dev/null 2>&1 </dev/null || :
        remove_recorded
    fi
    exit "$status"
}

begin() {
    unfinished=yes
    trap finish EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

install() {
    check_tools
    load_records
    find_environment
    clear_other_way
    find_environment
    [ -n "$records" ] || fresh=yes
    if [ "$how" = venv ]; then
        # Before anything is made: no Python, no installation; no foreign file is written over.
        works "$venv/bin/python" || pick_python
        refuse_foreign "$bin/git-wf"
    fi
    each_link check_place
    begin
    make_dir "$home"
    [ -n "$(recorded_way)" ] || record "how$tab$how"
    # Before another tool does, so that they are on record as ours.
    make_dir "$bin"
    each_link make_place
    install_environment
    [ "$how" != venv ] || make_link "$venv/bin/git-wf" "$bin/git-wf"
    if [ "$dev" = yes ]; then
        each_link link_checkout
    else
        each_link link_installed
    fi
    remove_stale_links
    quietly "'$bin/git-wf' does not start" "" "$bin/git-wf" --version
    unfinished=no
    say "$("$bin/git-wf" --version) is installed: $bin/git-wf"
    tell_paths
}

# What the user has to add to the shell's profile, if anything.
tell_paths() {
    shell=${SHELL:-sh}
    shell=${shell##*/}
    case ":$PATH:" in
        *":$bin:"*)
            first=$(command -v git-wf) || first=''
            [ "$first" = "$bin/git-wf" ] || say "note: '$first' comes before it on your PATH"
            ;;
        *)
            say ""
            say "'$bin' is not on your PATH: git does not find the command yet."
            case $shell in
                fish)
                    say "Call this once:"
                    say "    fish_add_path '$bin'"
                    ;;
                bash | zsh)
                    say "Add this line to ~/.${shell}rc and open a new shell:"
                    say "    export PATH=\"$bin:\$PATH\""
                    ;;
                *)
                    say "Add this line to ~/.profile and log in anew:"
                    say "    export PATH=\"$bin:\$PATH\""
                    ;;
            esac
            ;;
    esac
    if [ "$shell" = zsh ]; then
        say ""
        say "For completion, zsh needs this line in ~/.zshrc, before compinit:"
        say "    fpath=('$zsh_dir' \$fpath)"
    fi
}

uninstall() {
    load_records
    if [ -z "$records" ]; then
        # Whoever removed the environment by hand has links left that lead into it.
        left=''
        remove_if_ours '' '' "$bin/git-wf"
        each_link remove_if_ours
        [ -n "$left" ] || say "nothing to remove: there is no git-wf of this installer in '$prefix'"
        return 0
    fi
    how=$(recorded_way)
    find_environment
    if [ "$is_default_place" = yes ]; then
        # The line that `git wf setup` wrote would include a file that nothing looks after.
        "$bin/git-wf" setup --undo >/dev/null 2>&1 </dev/null || :
    fi
    quietly "$how could not uninstall git-wf" "" hand_back "$how"
    remove_recorded
    say "git-wf is removed; repositories keep their runs"
}

# --- demo and tests ------------------------------------------------------------------------------

demo() {
    say ""
    PATH=$bin:$PATH
    export PATH
    sh "$here/examples/demo.sh" "$@"
}

# The checks in the order of how fast they tell; pytest last, so that its summary ends the output.
run_tests() {
    home=$here/.venv
    venv=$home
    manifest=$home/installed
    check_tools
    begin
    make_venv
    say "installing git-wf and all that its tests need into '$venv'"
    pip_install --editable "${here}[test]"
    unfinished=no
    cd "$here"
    failed=''
    "$venv/bin/python" -m ruff check . || failed="$failed ruff"
    "$venv/bin/python" -m mypy || failed="$failed mypy"
    [ -z "$failed" ] || printf 'error: these checks failed:%s\n' "$failed" >&2
    "$venv/bin/python" -m pytest -n 2 --dist loadgroup "$@" </dev/null || failed="$failed pytest"
    [ -z "$failed" ] || exit 1
}

# --- the command line ----------------------------------------------------------------------------

here=$(CDPATH='' cd "$(dirname "$0")" && pwd -P)
[ -f "$here/pyproject.toml" ] || die "'$here' is no checkout of git-wf"
# What a caller's environment could turn elsewhere.
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0
action='install' how=venv dev=no verbose=no prefix='' unfinished=no fresh=no environment='' home=''

while [ $# -gt 0 ]; do
    case $1 in
        --prefix)
            [ $# -ge 2 ] && [ -n "$2" ] || die "--prefix needs a directory"
            prefix=$2
            shift
            ;;
        --prefix=?*) prefix=${1#--prefix=} ;;
        --pipx) how=pipx ;;
        --uv) how=uv ;;
        --dev) dev=yes ;;
        --uninstall) action=uninstall ;;
        --demo)
            action=demo
            shift
            break
            ;;
        --test)
            action='test'
            shift
            break
            ;;
        -v | --verbose) verbose=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) die "unknown argument '$1'" "sh install.sh --help" ;;
    esac
    shift
done

if [ "$dev" = yes ] && [ "$how" != venv ]; then
    die "--dev goes with the private environment, not with --$how"
fi

case $action in
    test) run_tests "$@" ;;
    uninstall)
        set_places
        uninstall
        ;;
    demo)
        set_places
        install
        demo "$@"
        ;;
    install)
        set_places
        install
        ;;
esac
