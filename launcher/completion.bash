# Bash completion of Hydra overrides for `python -m launcher`: source this file.
# Hydra's own (-sc install=bash) knows `python file.py`, not `python -m package`.
_launcher_completion() {
    local line="${COMP_LINE:0:$COMP_POINT}" python="${COMP_WORDS[0]}"
    [[ "$line" =~ ^[^[:space:]]+[[:space:]]+-m[[:space:]]+launcher([[:space:]].*)?$ ]] || return
    local rest="${BASH_REMATCH[1]}"
    rest="${rest# -m }"
    [[ "$rest" == " "* ]] || rest=" $rest"
    local word="${rest##* }" earlier="" choices
    if [[ "$word" =~ ^([^=]+=)(.*,)([^,]*)$ ]]; then  # the next value of an axis
        earlier="${BASH_REMATCH[2]}"
        rest="${rest%"$word"}${BASH_REMATCH[1]}${BASH_REMATCH[3]}"
    fi
    choices="$(COMP_LINE="launcher$rest" COMP_POINT=$((8 + ${#rest})) \
        "$python" -m launcher -sc query=bash 2>/dev/null)"
    [[ -z "$earlier" ]] || choices="${choices//=/=$earlier}"
    COMPREPLY=($(compgen -o nospace -W "$choices" -- "$word"))
}
COMP_WORDBREAKS="${COMP_WORDBREAKS//=/}"
complete -o nospace -o default -F _launcher_completion python python3
