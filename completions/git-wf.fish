# Completion of git-wf for fish; fish's own completion of git hands `git wf` over to it.
# Nothing here starts git-wf: verbs and options are written down, run ids come from git.

# The verb on the command line, if there is one yet.
function __fish_git_wf_verb
    set -l words (commandline -opc)
    for word in $words[2..]
        string match -q -- '-*' $word; or begin
            echo $word
            return 0
        end
    end
    return 1
end

function __fish_git_wf_is
    contains -- (__fish_git_wf_verb; or echo '') $argv
end

# Whether the verb is `snapshot`, and its own verb one of those; without any, that it has none yet.
function __fish_git_wf_snapshot
    set -l verbs
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; or set -a verbs $word
    end
    # Behind `git wf` there is one word more.
    test "$verbs[1]" = wf; and set -e verbs[1]
    test "$verbs[1]" = snapshot; or return 1
    if test (count $argv) -eq 0
        test (count $verbs) -eq 1
    else
        contains -- "$verbs[2]" $argv
    end
end

function __fish_git_wf_needs_verb
    not __fish_git_wf_verb >/dev/null
end

# __fish_git_wf_runs LEVELS: the run branches without that many leading components.
function __fish_git_wf_runs
    set -l namespace (git config wf.namespace 2>/dev/null; or echo wf)
    git for-each-ref --format="%(refname:lstrip=$argv[1])" refs/heads/$namespace/run 2>/dev/null
end

# Workflow files, and the directories on the way to them.
function __fish_git_wf_workflows
    set -l token (commandline -ct)
    for file in $token*
        if test -d $file
            echo $file/
        else if string match -qr '\.(dot|fabro|gv|toml)$' -- $file
            echo $file
        end
    end
end

complete -c git-wf -f
complete -c git-wf -s h -l help -d 'Show help'
complete -c git-wf -n __fish_git_wf_needs_verb -l version -d 'Show the version'

complete -c git-wf -n __fish_git_wf_needs_verb -a run -d 'Walk a workflow, recording a checkpoint after every node'
complete -c git-wf -n __fish_git_wf_needs_verb -a resume -d 'Go on with a run that was interrupted'
complete -c git-wf -n __fish_git_wf_needs_verb -a log -d 'Show the timeline of a run'
complete -c git-wf -n __fish_git_wf_needs_verb -a runs -d 'List the runs in this repository'
complete -c git-wf -n __fish_git_wf_needs_verb -a show -d 'Show one checkpoint'
complete -c git-wf -n __fish_git_wf_needs_verb -a inspect -d 'Show what was recorded of a checkpoint'
complete -c git-wf -n __fish_git_wf_needs_verb -a diff -d 'Compare two checkpoints'
complete -c git-wf -n __fish_git_wf_needs_verb -a graph -d 'Draw a workflow, or a run'
complete -c git-wf -n __fish_git_wf_needs_verb -a reflog -d 'Tell the story of the refs of a run'
complete -c git-wf -n __fish_git_wf_needs_verb -a bisect -d 'Find the node that broke it'
complete -c git-wf -n __fish_git_wf_needs_verb -a rewind -d 'Take a run back to a checkpoint'
complete -c git-wf -n __fish_git_wf_needs_verb -a fork -d 'Start a new run from a checkpoint'
complete -c git-wf -n __fish_git_wf_needs_verb -a undo -d 'Take back the newest operation'
complete -c git-wf -n __fish_git_wf_needs_verb -a redo -d 'Make once more what was undone'
complete -c git-wf -n __fish_git_wf_needs_verb -a rm -d 'Remove runs'
complete -c git-wf -n __fish_git_wf_needs_verb -a prune -d 'Remove the runs that nobody needs any more'
complete -c git-wf -n __fish_git_wf_needs_verb -a archive -d 'Fold finished runs into one ref'
complete -c git-wf -n __fish_git_wf_needs_verb -a push -d 'Send runs to a remote'
complete -c git-wf -n __fish_git_wf_needs_verb -a fetch -d 'Bring runs from a remote'
complete -c git-wf -n __fish_git_wf_needs_verb -a pull -d 'Bring a run from a remote, also where it went back'
complete -c git-wf -n __fish_git_wf_needs_verb -a export -d 'Write a run to a file'
complete -c git-wf -n __fish_git_wf_needs_verb -a import -d 'Take runs from a file'
complete -c git-wf -n __fish_git_wf_needs_verb -a verify -d 'Check what runs have recorded'
complete -c git-wf -n __fish_git_wf_needs_verb -a du -d 'Tell what runs cost on the disk'
complete -c git-wf -n __fish_git_wf_needs_verb -a validate -d 'Check workflow files'
complete -c git-wf -n __fish_git_wf_needs_verb -a snapshot -d 'Save what a workspace holds, and give it back'
complete -c git-wf -n __fish_git_wf_needs_verb -a undo-edits -d 'Take back what was edited since the last snapshot'
complete -c git-wf -n __fish_git_wf_needs_verb -a setup -d 'Teach plain git to show runs'

complete -c git-wf -n '__fish_git_wf_is run validate graph' -a '(__fish_git_wf_workflows)'
complete -c git-wf -n '__fish_git_wf_is log show inspect diff graph reflog bisect rewind fork resume undo redo rm archive push fetch pull export verify du' -a '(__fish_git_wf_runs 4)' -d Run

complete -c git-wf -n '__fish_git_wf_is run resume log runs show inspect diff graph reflog bisect rewind fork undo redo rm prune archive push fetch pull export import verify du validate setup' -l json -d 'Print JSON'
complete -c git-wf -n '__fish_git_wf_is push fetch pull' -a '(git remote 2>/dev/null)' -d Remote
complete -c git-wf -n '__fish_git_wf_is push' -l all -d 'All runs'
complete -c git-wf -n '__fish_git_wf_is export' -r -F -s o -l output -d 'The file to write'
complete -c git-wf -n '__fish_git_wf_is export' -l full -d 'With the commits that the run began from'
complete -c git-wf -n '__fish_git_wf_is import' -F
complete -c git-wf -n '__fish_git_wf_is push export' -l no-scan -d 'Do not look for secrets'
complete -c git-wf -n '__fish_git_wf_is run resume' -s q -l quiet -d 'Say less'
complete -c git-wf -n '__fish_git_wf_is run resume' -s v -l verbose -d 'Say more'
complete -c git-wf -n '__fish_git_wf_is run resume' -l auto-approve -d 'Take the first choice wherever a person is asked'
complete -c git-wf -n '__fish_git_wf_is run resume' -r -F -l answers -d 'Read answers from a file'
complete -c git-wf -n '__fish_git_wf_is run resume' -x -l answer -d 'Answer what the run waits for'
complete -c git-wf -n '__fish_git_wf_is run resume' -l keep-worktree -d 'Leave the worktree when the run ends'
complete -c git-wf -n '__fish_git_wf_is resume' -l no-claim -d 'Do not ask the remote of the run'
complete -c git-wf -n '__fish_git_wf_is run' -x -l goal -d 'What the run is to reach'
complete -c git-wf -n '__fish_git_wf_is run' -r -F -l goal-file -d 'Read the goal from a file'
complete -c git-wf -n '__fish_git_wf_is run' -x -l input -d 'Set an input: key=value'
complete -c git-wf -n '__fish_git_wf_is run' -x -l label -d 'Label the run: key=value'
complete -c git-wf -n '__fish_git_wf_is run' -l dry-run -d 'Walk the graph and change nothing'
complete -c git-wf -n '__fish_git_wf_is run' -l no-snapshot -d 'Save no snapshot first'
complete -c git-wf -n '__fish_git_wf_is run' -x -l restore -a last -d 'Restore a snapshot, run nothing'
complete -c git-wf -n '__fish_git_wf_is run' -l in-place -d 'Run in the checkout, without checkpoints'
complete -c git-wf -n '__fish_git_wf_is run' -x -l dirty -a 'head include in-place refuse' -d 'What to do about uncommitted changes'
complete -c git-wf -n '__fish_git_wf_is run' -r -F -l resume -d 'Go on from a checkpoint file'
complete -c git-wf -n '__fish_git_wf_is run' -x -l run-branch -a '(__fish_git_wf_runs 2)' -d 'Go on with the run of a branch'
complete -c git-wf -n '__fish_git_wf_is runs' -x -l status -a 'running success partial_success fail waiting interrupted' -d 'Those of that status'
complete -c git-wf -n '__fish_git_wf_is runs' -x -l label -d 'Those with that label'
complete -c git-wf -n '__fish_git_wf_is runs' -x -l workflow -d 'Those of that workflow'
complete -c git-wf -n '__fish_git_wf_is runs' -x -l sort -a 'created updated status workflow checkpoints' -d 'Order by'
complete -c git-wf -n '__fish_git_wf_is log' -l all -d 'Of all runs'
complete -c git-wf -n '__fish_git_wf_is log' -x -l since -d 'Not those before a date'
complete -c git-wf -n '__fish_git_wf_is log' -x -l node -d 'Those of a node'
complete -c git-wf -n '__fish_git_wf_is log' -x -l status -a 'success partial_success fail skipped' -d 'Those of that status'
complete -c git-wf -n '__fish_git_wf_is log' -l reverse -d 'Newest first'
complete -c git-wf -n '__fish_git_wf_is log' -l oneline -d 'A line each'
complete -c git-wf -n '__fish_git_wf_is log' -l graph -d 'With the parallel branches'
complete -c git-wf -n '__fish_git_wf_is log' -l stat -d 'With the files that changed'
complete -c git-wf -n '__fish_git_wf_is inspect' -x -s f -l field -d 'Print one field'
complete -c git-wf -n '__fish_git_wf_is diff' -l state -d 'Compare context and outcomes'
complete -c git-wf -n '__fish_git_wf_is diff' -s p -l patch -d 'What changed, line by line'
complete -c git-wf -n '__fish_git_wf_is diff' -l stat -d 'How much changed'
complete -c git-wf -n '__fish_git_wf_is diff' -l exit-code -d 'Status 1 where there is a difference'
complete -c git-wf -n '__fish_git_wf_is log' -s p -l patch -d 'With what changed in them'
complete -c git-wf -n '__fish_git_wf_is log' -x -l format -a 'oneline short medium full fuller wf wf-full' -d 'A format'
complete -c git-wf -n '__fish_git_wf_is log' -x -l pretty -a 'oneline short medium full fuller wf wf-full' -d 'A format'
complete -c git-wf -n '__fish_git_wf_is log' -l jsonl -d 'Print a JSON object a checkpoint'
complete -c git-wf -n '__fish_git_wf_is log' -s z -d 'End each with NUL'
complete -c git-wf -n '__fish_git_wf_is log reflog' -x -s n -d 'The newest only'
complete -c git-wf -n '__fish_git_wf_is graph' -r -F -s o -l output -d 'Write to a file'
complete -c git-wf -n '__fish_git_wf_is graph' -x -l format -a 'svg png text' -d 'The form'
complete -c git-wf -n '__fish_git_wf_is rewind fork' -l list -d 'List the checkpoints that can be named'
complete -c git-wf -n '__fish_git_wf_is undo redo rm prune archive' -l list -d 'List what it would be about'
complete -c git-wf -n '__fish_git_wf_is rewind fork undo redo rm prune archive' -s n -l dry-run -d 'Print the plan as a script of plain git'
complete -c git-wf -n '__fish_git_wf_is run fork' -x -l id -d 'The id of the new run'
complete -c git-wf -n '__fish_git_wf_is prune' -x -l older-than -d 'To which nothing happened for so long'
complete -c git-wf -n '__fish_git_wf_is prune' -l merged -d 'Whose change is in the default branch'
complete -c git-wf -n '__fish_git_wf_is prune' -x -l keep -d 'All but the newest'
complete -c git-wf -n '__fish_git_wf_is prune' -l unfinished -d 'Interrupted and waiting runs as well'
complete -c git-wf -n '__fish_git_wf_is validate' -x -l format -a 'text github' -d 'How to print'
complete -c git-wf -n '__fish_git_wf_is validate' -l strict -d 'Take warnings as errors'
complete -c git-wf -n '__fish_git_wf_is validate' -l backends -d 'Check that the backends are installed'
complete -c git-wf -n '__fish_git_wf_is setup' -l undo -d 'Take it back'
complete -c git-wf -n '__fish_git_wf_is undo-edits' -l json -d 'Print JSON'
complete -c git-wf -n '__fish_git_wf_is undo-edits' -x -s w -l workspace -a '(__fish_complete_directories)' -d 'Another workspace'

complete -c git-wf -n __fish_git_wf_snapshot -a save -d 'Save the workspace'
complete -c git-wf -n __fish_git_wf_snapshot -a list -d 'List the snapshots'
complete -c git-wf -n __fish_git_wf_snapshot -a show -d 'Show one snapshot'
complete -c git-wf -n __fish_git_wf_snapshot -a diff -d 'Compare a snapshot with the workspace, or two snapshots'
complete -c git-wf -n __fish_git_wf_snapshot -a restore -d 'Give the workspace back what a snapshot holds'
complete -c git-wf -n __fish_git_wf_snapshot -a rewind -d 'Go back a step, or several'
complete -c git-wf -n __fish_git_wf_snapshot -a delete -d 'Delete snapshots'
complete -c git-wf -n __fish_git_wf_snapshot -a prune -d 'Delete old snapshots'
complete -c git-wf -n '__fish_git_wf_snapshot save list show diff restore rewind delete prune' -l json -d 'Print JSON'
complete -c git-wf -n '__fish_git_wf_snapshot save list show diff restore rewind delete prune' -x -s w -l workspace -a '(__fish_complete_directories)' -d 'Another workspace'
complete -c git-wf -n '__fish_git_wf_snapshot show diff restore' -a last
complete -c git-wf -n '__fish_git_wf_snapshot save' -l allow-empty -d 'Also where nothing has changed'
complete -c git-wf -n '__fish_git_wf_snapshot save' -x -l session -d 'The session that it belongs to'
complete -c git-wf -n '__fish_git_wf_snapshot save restore' -x -l step -d 'The number of a step'
complete -c git-wf -n '__fish_git_wf_snapshot list' -x -s n -d 'The newest only'
complete -c git-wf -n '__fish_git_wf_snapshot diff' -s p -l patch -d 'What changed, line by line'
complete -c git-wf -n '__fish_git_wf_snapshot diff' -l stat -d 'How much changed'
complete -c git-wf -n '__fish_git_wf_snapshot diff' -l exit-code -d 'Status 1 where there is a difference'
complete -c git-wf -n '__fish_git_wf_snapshot restore' -r -F -l path -d 'This file or directory only'
complete -c git-wf -n '__fish_git_wf_snapshot delete' -l all -d 'All snapshots of the workspace'
complete -c git-wf -n '__fish_git_wf_snapshot delete' -s y -l yes -d 'Do not ask'
complete -c git-wf -n '__fish_git_wf_snapshot prune' -x -l keep -d 'All but the newest'
complete -c git-wf -n '__fish_git_wf_snapshot prune' -x -l older-than -d 'Those that are older'
