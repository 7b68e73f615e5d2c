#!/bin/sh
# Runs the end-to-end programs on this machine, with native code even where it is off because no one has run
# it yet, and prints what to paste into an issue.
#
#     testing/machines/prove.sh REHAL IREE-COMPILE
#
# REHAL is the program of a package, or of `cargo build --release`; IREE-COMPILE that of the release which
# README.md names (`pip install iree-base-compiler`). By default both are found by PATH. Exits with 1 if a
# program fails.
set -u
rehal=${1:-rehal}
compiler=${2:-iree-compile}
programs=$(cd "$(dirname "$0")/../../fixtures/e2e" && pwd) || exit 2
for program in "$rehal" "$compiler"; do
    command -v "$program" >/dev/null || { echo "$program is missing: see the first lines of $0" >&2; exit 2; }
done
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
REHAL_UNPROVEN=1
export REHAL_UNPROVEN

case $(uname -m) in
    arm64 | aarch64) processor=aarch64 ;;
    *) processor=x86_64 ;;
esac
passed=0
failed=0
for source in "$programs"/*.mlir; do
    name=$(basename "$source" .mlir)
    for target in llvm-cpu vmvx; do
        only=$(sed -n 's|^// targets: ||p' "$source")
        case " ${only:-$target} " in
            *" $target"*) ;;
            *) continue ;;
        esac
        flags="--iree-input-demote-f64-to-f32=false --iree-hal-target-device=local"
        flags="$flags --iree-hal-local-target-device-backends=$target"
        if [ "$target" = llvm-cpu ]; then
            flags="$flags --iree-llvmcpu-target-triple=$processor-unknown-linux-gnu --iree-llvmcpu-target-cpu=generic"
        fi
        # shellcheck disable=SC2086
        if ! "$compiler" $flags "$source" -o "$work/module.vmfb" 2>"$work/said"; then
            echo "| $target | $name | does not compile: $(tail -1 "$work/said") |"
            failed=$((failed + 1))
            continue
        fi
        # The tests in this one fail, as they should: a refusal has the same status, and no report.
        if [ "$name" = failures ]; then expected=1 report='6 FAILED TESTS'; else expected=0 report='[  PASSED  ]'; fi
        for device in local-sync local-task; do
            "$rehal" check-module --device=$device --module="$work/module.vmfb" >"$work/said" 2>&1
            status=$?
            if [ $status -eq $expected ] && grep -qF "$report" "$work/said"; then
                passed=$((passed + 1))
            else
                failed=$((failed + 1))
                echo "| $target, $device | $name | status $status: $(tail -3 "$work/said" | tr '\n' ' ') |"
            fi
        done
    done
done >"$work/failures"
echo "Paste from here into an issue:"
echo
uname -srm
"$rehal" --version
echo "$passed runs pass, $failed fail"
cat "$work/failures"
[ "$failed" -eq 0 ]
