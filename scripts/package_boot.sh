# shellcheck shell=bash disable=SC2154
# Sourced by scripts/package_test.sh, which has made next.deb: the root that camd was installed into, booted in QEMU. What happens in the machine
# comes over its serial line: "ok: ..." or "failed: ...", and "end" when all was done.

have qemu-system-x86_64 || die "qemu-system-x86_64 is missing (package qemu-system-x86)"
mkdir -p "$root/etc/systemd/system/camd.service.d"
# A machine in QEMU takes minutes for what takes seconds, and all the longer where its host has other work.
printf '[Service]\nTimeoutAbortSec=2\nTimeoutStartSec=900\nTimeoutStopSec=300\n' >"$root/etc/systemd/system/camd.service.d/quick.conf"
PYTHONPATH=tests/chaos python3 -c "import parts; parts.tiny_model('$root/srv/tiny.onnx')"
cat >"$root/srv/boot-test.sh" <<'INSIDE'
#!/bin/bash
# In the virtual machine, as root, once it has booted.
log() { echo "camd-test $*"; }
expect() { # WHAT COMMAND...
  local what=$1 tries
  shift
  for ((tries = 0; tries < 600; ++tries)); do
    if "$@"; then log "ok: $what" && return; fi
    sleep 0.5
  done
  log "failed: $what"
  systemctl status camd --no-pager -l
  journalctl -u camd --no-pager -n 40
  finish  # what follows builds on it
}
finish() {
  log end
  systemctl poweroff --no-block
  exit
}
status_has() { systemctl show -p StatusText --value camd | grep -qF "$1"; }
active() { [[ $(systemctl is-active camd) == active ]]; }
config=/etc/camd/camd.yaml
expect "the service is active" active
expect "its status counts the camera" status_has "1 of 1 cameras running"
log "score: $(systemd-analyze security camd --no-pager | tail -n 1)"
pid() { systemctl show -p MainPID --value camd; }
expect "it has no rights, can get none, and a filter stands before its system calls" sh -c \
  "test \"\$(awk '/^(CapBnd|CapEff|NoNewPrivs|Seccomp):/ { printf \"%s \", \$2 }' /proc/$(pid)/status)\" = '0000000000000000 0000000000000000 1 2 '"
expect "it cannot write outside /var/lib/camd" sh -c \
  "nsenter -t $(pid) -m touch /var/lib/camd/mine && ! nsenter -t $(pid) -m touch /etc/camd/mine && ! nsenter -t $(pid) -m touch /srv/mine"
expect "it cannot open the disk" sh -c \
  "head -c 1 /dev/vda >/dev/null && ! sh -c 'echo 0 >/sys/fs/cgroup\$(systemctl show -p ControlGroup --value camd)/cgroup.procs || exit 0; exec head -c 1 /dev/vda'"
expect "it runs as camd" sh -c 'ps -o user= -p $(systemctl show -p MainPID --value camd) | grep -qx camd'
# A network of one step: QEMU takes seconds for a frame of a real one.
cat >$config <<'YAML'
model: {path: /srv/tiny.onnx}
cameras:
  - name: other
    source: {type: test, width: 320, height: 180, fps: 1}
  - name: test
    source: {type: test, width: 640, height: 360, fps: 1}
postprocess:
  - plugin: /usr/local/lib/count.so
    nice: 7
  - plugin: jsonl
    config: {path: detections.jsonl}
  - plugin: webhook # nobody is there; its thread stands behind the cameras'
    config: {url: "http://127.0.0.1:9/"}
YAML
systemctl reload camd
expect "a reload adds a camera" status_has "2 of 2 cameras running"
expect "a plug-in runs in a process of its own under the service's filter" pgrep -u camd camd-plugin
expect "the thread that sends has lowered its own priority" sh -c 'ps -L -o ni= -p $(systemctl show -p MainPID --value camd) | grep -qw 10'
expect "the plug-in's process has the priority that the configuration says" sh -c 'ps -o ni= -p $(pgrep -u camd -d , camd-plugin) | grep -qw 7'
expect "frames come through it" test -s /var/lib/camd/detections.jsonl
expect "it may write nothing, by Landlock" test ! -e /var/lib/camd/forbidden
expect "it is confined by seccomp" sh -c 'grep -q "^Seccomp:.*2" /proc/$(pgrep -u camd camd-plugin | head -n 1)/status'
cp $config /srv/good.yaml
echo "nonsense: 1" >>$config
systemctl reload camd
expect "a wrong configuration is refused and the old one runs on" status_has "2 of 2 cameras running"
expect "and systemctl status says so" status_has "refused"
cp /srv/good.yaml $config
before=$(systemctl show -p NRestarts --value camd)
kill -STOP "$(systemctl show -p MainPID --value camd)"
expect "the watchdog starts it anew" sh -c "[ \$(systemctl show -p NRestarts --value camd) -gt $before ]"
expect "and its cameras run again" status_has "2 of 2 cameras running"
systemctl stop camd
expect "it stops with success" sh -c '[ "$(systemctl show -p Result --value camd)" = success ]'
systemctl start camd
expect "it starts again" active
rm /usr/sbin/policy-rc.d
before=$(systemctl show -p MainPID --value camd)
expect "an upgrade" dpkg -i /srv/next.deb
expect "starts the next version" sh -c "test \$(systemctl show -p MainPID --value camd) != $before && systemctl is-active camd"
expect "and its cameras run" status_has "2 of 2 cameras running"
expect "a purge" dpkg --purge camd camd-dev
expect "leaves no service, no process and no file" sh -c \
  '! systemctl is-active camd && ! pgrep -u camd && ! test -e /etc/camd && ! test -e /var/lib/camd && ! test -e /usr/bin/camd'
finish
INSIDE
chmod 755 "$root/srv/boot-test.sh"
cat >"$root/etc/systemd/system/boot-test.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
ExecStart=/srv/boot-test.sh
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -sf /etc/systemd/system/boot-test.service "$root/etc/systemd/system/default.target.wants/boot-test.service"
must "ps is there" inside apt-get -q -y --no-install-recommends install procps
say "making a disk of it"
rm -f "$work/disk.img"
umount "$root/proc"
umount -R "$root/dev"
mke2fs -q -t ext4 -d "$root" "$work/disk.img" 4G
acceleration=(-accel "tcg,thread=multi" -cpu max)
# KVM inside a virtual machine is not always what it says it is; who has it sets CAMD_BOOT_KVM.
if [[ -n ${CAMD_BOOT_KVM:-} ]]; then acceleration=(-accel kvm -cpu host); fi
say "booting (${acceleration[1]})"
# An hour of QEMU's own processor time, which a busy host does not use up. The clock is for a machine that hangs idle.
(ulimit -t 3600 && exec timeout 7200 qemu-system-x86_64 "${acceleration[@]}" -m 2048 -smp 2 -nographic -no-reboot -net none \
  -kernel "$root"/boot/vmlinuz-* -initrd "$root"/boot/initrd.img-* -append "root=/dev/vda rw console=ttyS0 quiet no_timer_check systemd.default_timeout_start_sec=900" \
  -drive "file=$work/disk.img,format=raw,if=virtio,cache=unsafe") >"$work/boot.log" 2>&1 || true
grep -ao 'camd-test .*' "$work/boot.log" | sed 's/^camd-test /  /'
grep -qa 'camd-test end' "$work/boot.log" || { tail -n 40 "$work/boot.log" >&2 && die "the machine did not come to the end"; }
if grep -qa 'camd-test failed' "$work/boot.log"; then die "the service failed in the machine ($work/boot.log)"; fi
mount_system
rm -f "$work/disk.img" "$root/etc/systemd/system/boot-test.service" \
  "$root/etc/systemd/system/default.target.wants/boot-test.service"
rm -rf "$root/etc/systemd/system/camd.service.d"
