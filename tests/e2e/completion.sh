#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The scripts of --print_completion complete command lines in the shell itself.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PATH=$(dirname "$(realpath "$DDPRUN")"):$PATH
mkdir "$work/folder" && touch "$work/folder/file.txt" "$work/events.jsonl" "$work/train.py" && chmod +x "$work/train.py"
for shell in bash zsh fish; do
  run --print_completion "$shell"
  expect_exit 0
  cp "$out" "$work/script.$shell"
  expect_no_process_left
done
bash -n "$work/script.bash"

# Completes a line of several words, the last of which may be empty, as readline splits it: at blanks, = and :.
complete_in_bash() {  # LINE: prints the replies, sorted
  (cd "$work" && bash -c '
    compopt() { :; }  # outside of readline there is none
    source script.bash
    COMP_LINE=$1 COMP_POINT=${#1}
    read -ra COMP_WORDS <<<"$(sed -E "s/([=:]+)/ \1 /g" <<<"$1")"
    case $1 in *[[:space:]=:]) COMP_WORDS+=("") ;; esac
    [[ $1 != *[=:] ]] || unset "COMP_WORDS[-1]"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    PATH=$PWD/folder  # no other commands
    _ddprun "$2"
    printf "%s\n" "${COMPREPLY[@]}"' - "$1" "$DDPRUN") | sort -u
}

expect_bash() {  # LINE REPLIES
  local replies
  replies=$(complete_in_bash "$1" | paste -sd ' ')
  [ "$replies" = "$2" ] || fail "bash completes '$1' with '$replies', expected '$2'"
}

expect_bash 'ddprun --max_r' '--max_restarts'
expect_bash 'ddprun --max-r' '--max-restarts'
expect_bash 'ddprun --gpu_bind ' 'all isolate'
expect_bash 'ddprun --gpu_bind=i' 'isolate'
expect_bash 'ddprun --gpu-bind=' 'all isolate'
expect_bash 'ddprun --nproc_per_node 4 --events ev' 'events.jsonl'
expect_bash 'ddprun --events=ev' 'events.jsonl'
expect_bash 'ddprun --log_dir ' 'folder'
expect_bash 'ddprun --log_level "info" --events ev' 'events.jsonl'
expect_bash 'ddprun --rdzv_endpoint host:29500 --store ' 'agent tunnel worker'
expect_bash 'ddprun -r 3 --numa_binding=co' 'core-complex'
expect_bash 'ddprun ser' 'serve'
expect_bash 'ddprun serve --max_re' '--max_restarts'
expect_bash 'ddprun serve --gpu_b' ''
expect_bash 'ddprun logs 1 -' '--help -f'
expect_bash 'ddprun manifest ' 'job jobset trainjob'
expect_bash 'ddprun manifest job --ima' '--image'
expect_bash 'ddprun manifest job --node_r' ''
expect_bash 'ddprun help rendez' 'rendezvous'
expect_bash 'ddprun secret tr' 'train.py'
expect_bash 'ddprun ./tr' './train.py'
expect_bash 'ddprun --standalone train.py --max_r' ''
expect_bash 'ddprun train.py folder/' 'folder/file.txt'
expect_bash 'ddprun -- train.py ev' 'events.jsonl'
expect_bash 'ddprun --standalone serve --m' ''

if command -v fish >/dev/null; then
  export HOME=$work XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work
  expect_fish() {  # LINE REPLIES, without what is beside them
    local replies
    replies=$(cd "$work" && fish --no-config -c 'source script.fish; complete -C "$argv[1]"' -- "$1" | cut -f1 | sort | paste -sd ' ')
    [ "$replies" = "$2" ] || fail "fish completes '$1' with '$replies', expected '$2'"
  }
  expect_fish 'ddprun --max_r' '--max_restarts'
  expect_fish 'ddprun --max-r' '--max-restarts'
  expect_fish 'ddprun --gpu_bind ' 'all isolate'
  expect_fish 'ddprun --gpu_bind=i' '--gpu_bind=isolate'
  expect_fish 'ddprun --events=ev' '--events=events.jsonl'
  expect_fish 'ddprun --events ev' 'events.jsonl'
  expect_fish 'ddprun --log_dir fol' 'folder/'
  expect_fish 'ddprun -r 3 train.py ev' 'events.jsonl'
  expect_fish 'ddprun serve --max_re' '--max_restarts'
  expect_fish 'ddprun serve --gpu_b' ''
  expect_fish 'ddprun serve fo' ''
  expect_fish 'ddprun --standalone train.py --max_r' ''
  expect_fish 'ddprun manifest job --ima' '--image'
else
  echo "there is no fish: not tried there" >&2
fi

# On a terminal, where the shell itself replaces words: SHELL COMMANDS, which load the script.
expect_on_terminal() {
  on_terminal <<END
type("cd $work; $1\n")
type("PS1='own> '\n")
expect("own> (?!')")
type("$2; ddprun() { echo \"got<\$*>\"; }\n")
for typed, expected in {
    "--max_r": "--max_restarts",
    "--max-r": "--max-restarts",
    "--gpu_bind=i": "--gpu_bind=isolate",
    "--gpu-bind i": "--gpu-bind isolate",
    "--nproc_per_node 2 --events=ev": "--nproc_per_node 2 --events=events.jsonl",
    "--rdzv_endpoint host:29500 --store w": "--rdzv_endpoint host:29500 --store worker",
    "serve --max_r": "serve --max_restarts",
    "logs 1 --he": "logs 1 --help",
    "manifest jobs": "manifest jobset",
    "manifest job --ima": "manifest job --image",
    "--log_dir fol": "--log_dir folder/?",
    "./tr": "./train.py",
    "--export 'A B' --max_r": "--export A B --max_restarts",
    "-r 3 train.py ev": "-r 3 train.py events.jsonl",
}.items():
    expect("own> (?!')")
    type("ddprun " + typed + "\t\n")
    expect("^got<" + expected + " *>")
type("exit\n")
expect(prompt)
END
}

expect_on_terminal 'bash --norc --noprofile -i' 'source script.bash'
if command -v zsh >/dev/null; then
  expect_on_terminal 'zsh -f -i' 'autoload -U compinit; compinit -u -D; source script.zsh'
else
  echo "there is no zsh: not tried there" >&2
fi
