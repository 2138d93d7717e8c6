# Completion of git-wf for bash, for `git-wf` and, through git's own completion, for `git wf`.
# Nothing here starts git-wf: verbs and options are written down, run ids come from git.
# shellcheck shell=bash

# The values that complete the current word go into COMPREPLY.
__git_wf_words() {
    local IFS=$' \t\n'
    # shellcheck disable=SC2207 # the candidates hold no blanks
    COMPREPLY=($(compgen -W "$1" -- "${cur-}"))
}

# File names that end as one of the given patterns says, and directories.
__git_wf_files() {
    local file pattern
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=()
    while read -r file; do
        if [[ -d $file ]]; then
            COMPREPLY+=("$file")
            continue
        fi
        for pattern in "$@"; do
            # shellcheck disable=SC2053 # a pattern on purpose
            [[ $file == $pattern ]] && COMPREPLY+=("$file")
        done
    done < <(compgen -f -- "${cur-}")
}

# git as the command line says: under git's completion, with its -C and --git-dir.
__git_wf_git() {
    if [[ -n ${__git_wf_through_git-} ]]; then
        __git "$@"
    else
        git "$@" 2>/dev/null
    fi
}

# __git_wf_runs LEVELS: the run branches without that many leading components.
__git_wf_runs() {
    local namespace
    namespace=$(__git_wf_git config wf.namespace)
    __git_wf_git for-each-ref --format="%(refname:lstrip=$1)" "refs/heads/${namespace:-wf}/run"
}

__git_wf_options() {
    case $1 in
        run)
            echo "--goal --goal-file --input --label --id --dry-run --in-place --dirty --no-snapshot --restore" \
                "--auto-approve --answers --answer --keep-worktree --resume --run-branch" \
                "--json --quiet --verbose"
            ;;
        resume)
            echo "--auto-approve --answers --answer --keep-worktree --no-claim --json --quiet --verbose"
            ;;
        log)
            echo "--all --since --node --status --reverse --oneline --graph --stat --patch" \
                "--format --pretty --json --jsonl"
            ;;
        runs) echo "--status --label --workflow --sort --json" ;;
        show | reflog | bisect) echo "--json" ;;
        inspect) echo "--field --json" ;;
        diff) echo "--state --patch --stat --exit-code --json" ;;
        graph) echo "--output --format --json" ;;
        rewind) echo "--list --dry-run --json" ;;
        fork) echo "--list --dry-run --id --json" ;;
        undo | redo | rm | archive) echo "--list --dry-run --json" ;;
        prune) echo "--older-than --merged --keep --unfinished --list --dry-run --json" ;;
        push) echo "--all --no-scan --json" ;;
        export) echo "--output --full --no-scan --json" ;;
        fetch | pull | import | verify | du) echo "--json" ;;
        validate) echo "--json --format --strict --backends" ;;
        setup) echo "--undo --json" ;;
        "snapshot save") echo "--allow-empty --step --session --workspace --json" ;;
        "snapshot list" | "snapshot show" | "snapshot rewind") echo "--workspace --json" ;;
        "snapshot diff") echo "--patch --stat --exit-code --workspace --json" ;;
        "snapshot restore") echo "--step --path --workspace --json" ;;
        "snapshot delete") echo "--all --yes --workspace --json" ;;
        "snapshot prune") echo "--keep --older-than --workspace --json" ;;
        undo-edits) echo "--workspace --json" ;;
    esac
}

# The value of a verb's option before the cursor; status 1 where that option takes none.
__git_wf_value() {
    case ${prev-} in
        --goal-file | --answers | --resume | --output | -o | --path) __git_wf_files '*' ;;
        --workspace | -w) __git_wf_files ;;
        --run-branch) __git_wf_words "$(__git_wf_runs 2)" ;;
        --dirty) __git_wf_words "head include in-place refuse" ;;
        --format)
            case ${1-} in
                graph) __git_wf_words "svg png text" ;;
                log) __git_wf_words "oneline short medium full fuller wf wf-full" ;;
                *) __git_wf_words "text github" ;;
            esac
            ;;
        --status)
            case ${1-} in
                runs) __git_wf_words "running success partial_success fail waiting interrupted" ;;
                *) __git_wf_words "success partial_success fail skipped" ;;
            esac
            ;;
        --sort) __git_wf_words "created updated status workflow checkpoints -created -updated" ;;
        --pretty) __git_wf_words "oneline short medium full fuller wf wf-full" ;;
        --goal | --workflow | --field | -f | --since | --node | --input | --label | --id | --answer | --older-than | --keep | --step | --session) COMPREPLY=() ;;
        *) return 1 ;;
    esac
}

# Called with cur, prev, words and cword set, and __git_cmd_idx the place of `wf` among the words.
_git_wf() {
    local verbs="run resume log runs show inspect diff graph reflog bisect rewind fork undo redo rm prune"
    verbs+=" archive push fetch pull export import verify du validate snapshot undo-edits setup"
    local snapshot_verbs="save list show diff restore rewind delete prune"
    local verb="" place
    local __git_wf_through_git=${__git_wf_through_git-yes}

    for ((place = ${__git_cmd_idx:-1} + 1; place < cword; place++)); do
        if [[ ${words[place]} != -* ]]; then
            verb=${words[place]}
            break
        fi
    done
    if [[ $verb == snapshot ]]; then
        for ((place++; place < cword; place++)); do
            if [[ ${words[place]} != -* ]]; then
                verb+=" ${words[place]}"
                break
            fi
        done
    fi
    if [[ -z $verb ]]; then
        if [[ ${cur-} == -* ]]; then
            __git_wf_words "--help --version"
        else
            __git_wf_words "$verbs"
        fi
    elif __git_wf_value "$verb"; then
        :
    elif [[ ${cur-} == -* ]]; then
        __git_wf_words "$(__git_wf_options "$verb") --help"
    else
        case $verb in
            snapshot) __git_wf_words "$snapshot_verbs" ;;
            "snapshot show" | "snapshot diff" | "snapshot restore") __git_wf_words "last" ;;
            run | validate) __git_wf_files '*.dot' '*.fabro' '*.gv' '*.toml' ;;
            graph)
                __git_wf_files '*.dot' '*.fabro' '*.gv' '*.toml'
                local files=("${COMPREPLY[@]}")
                __git_wf_words "$(__git_wf_runs 4)"
                COMPREPLY+=("${files[@]}")
                ;;
            import) __git_wf_files '*' ;;
            push | fetch | pull) __git_wf_words "$(__git_wf_git remote) $(__git_wf_runs 4)" ;;
            log | show | inspect | diff | reflog | bisect | rewind | fork | resume | undo | redo | rm | archive | export | verify | du)
                __git_wf_words "$(__git_wf_runs 4)"
                ;;
        esac
    fi
    # git's own completion adds no blank after a word, so that it can complete parts of words.
    if [[ ${#COMPREPLY[@]} -eq 1 && ! -d ${COMPREPLY[0]} ]]; then
        compopt +o nospace 2>/dev/null
    fi
    return 0
}

# For the command line `git-wf …` itself.
__git_wf_main() {
    # shellcheck disable=SC2034 # read by _git_wf
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    # shellcheck disable=SC2034
    local words=("${COMP_WORDS[@]}") cword=$COMP_CWORD __git_cmd_idx=0 __git_wf_through_git=""
    _git_wf
}

complete -o bashdefault -o default -F __git_wf_main git-wf
