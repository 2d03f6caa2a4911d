
# Bash breaks words at `=` and `:` too, and completes what comes after them alone: KEY=VALUE and unix:PATH are put together
# again before the program is asked, and what is typed already is taken off its answers.
_hotset_words() {
    local -a joined=()
    local index cursor=0 before=" "
    for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
        local word="${COMP_WORDS[index]}"
        if ((index > 1)) && { [[ "$word" == [=:] ]] || [[ "$before" == [=:] ]]; } && [[ "${joined[-1]}" != --* ]]; then
            joined[-1]+="$word"
        else
            joined+=("$word")
        fi
        before="$word"
        ((index == COMP_CWORD)) && cursor=$((${#joined[@]} - 1))
    done
    local current="${joined[cursor]}"
    local -a COMP_WORDS=("${joined[@]}")
    local COMP_CWORD=$cursor
    _clap_complete_hotset "$1" "$current" "$3"
    local typed="${current%"${current##*[=:]}"}"
    if [[ -n "$typed" && "$typed" != --* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$typed"}")
    fi
}
complete -o nospace -o bashdefault -o nosort -F _hotset_words hotset
