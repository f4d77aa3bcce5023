# SPDX-License-Identifier: Apache-2.0
# Gives several hosts a real sshd each: source this instead of netns.sh, and call `hosts` first.
#
#   serve_ssh HOST [OVER UNDER]   starts one; there the folder OVER lies over the folder UNDER
#   ${ssh[@]}                     the options of ddprun for it
#
# The daemons are in $daemons, and end with the test. Their sessions have the home $work/home: a shell that reads the
# real user's home may take any time, or fail when it is killed.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
for tool in ssh ssh-keygen; do
  command -v $tool >/dev/null || skip "there is no $tool (package openssh-client)"
done
[ -x /usr/sbin/sshd ] || skip "there is no sshd (package openssh-server)"

mkdir "$work/home"
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
cat >"$work/sshd_config" <<END
HostKey $work/key
AuthorizedKeysFile $work/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
PidFile none
SetEnv HOME=$work/home $mark $(env | grep -E '^([A-Z]*SAN_OPTIONS|DDPRUN_MUTATION[A-Z_]*)=' | tr '\n' ' ')
END
cat >"$work/ssh_config" <<END
IdentityFile $work/key
IdentitiesOnly yes
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
END

daemons=()
stop_daemons() {
  local pid
  for pid in "${daemons[@]}"; do kill "$pid"; done
}
at_exit+=(stop_daemons)
serve_ssh() {
  unshare --uts --mount sh "$work/.enter" "$1" nsenter --net="/run/netns/$net-$1" sh -c '
      mount -t tmpfs tmpfs /run && mkdir /run/sshd
      [ -z "$2" ] || mount --bind "$2" "$3"
      exec /usr/sbin/sshd -D -e -f "$1"' sh "$work/sshd_config" "${2:-}" "${3:-}" \
    >"$work/.sshd.$1" 2>&1 &
  daemons+=($!)
  code=running
  wait_until listens "$1"
}
listens() {
  grep -qs 'Server listening' "$work/.sshd.$1"
}

# shellcheck disable=SC2034
ssh=(--ssh "ssh -F $work/ssh_config")
