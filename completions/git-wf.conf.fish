# Read when fish starts. Up to 3.6.0, fish's own completion of git does not find that of `git wf`.

function __fish_git_wf_through_git
    set -l words (commandline -opc)
    set -l place (contains -i -- wf $words)
    complete -C "git-wf $words["(math $place + 1)"..] "(commandline -ct)
end

complete -c git -f -n '__fish_git_using_command wf' -a '(__fish_git_wf_through_git)'
complete -c git -n __fish_git_needs_command -a wf -d 'Run workflows, every step a commit'
