#!/bin/sh
# The Chromium that tests of the pages drive.
#
#   browser.sh find       prints its path, and fails where there is none
#   browser.sh install    the same, but gets Debian's package first where there is none and it may
#
# WAYBILL_CHROMIUM names another one.
set -u

fail() {
    printf 'waybill: %s\n' "$1" >&2
    exit 1
}

# A browser that is there may still not run: Ubuntu's package of this name only asks for another one.
works() {
    "$1" --version >/dev/null 2>&1
}

find_browser() {
    if [ -n "${WAYBILL_CHROMIUM:-}" ]; then
        works "$WAYBILL_CHROMIUM" || fail "WAYBILL_CHROMIUM=$WAYBILL_CHROMIUM is not a working Chromium; point it at one or unset it."
        printf '%s\n' "$WAYBILL_CHROMIUM"
        return 0
    fi
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        if found=$(command -v "$name") && works "$found"; then
            printf '%s\n' "$found"
            return 0
        fi
    done
    return 1
}

# As root, or as somebody whom sudo asks for no password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes -o DPkg::Lock::Timeout=120 "$@"
}

install_browser() {
    command -v apt-get >/dev/null || return 1
    echo "waybill: installing Chromium" >&2
    { apt install --no-install-recommends chromium || { apt update && apt install --no-install-recommends chromium; }; } >&2
}

case "${1:-}" in
    find) install=no ;;
    install) install=yes ;;
    *) fail "usage: browser.sh find|install" ;;
esac
find_browser && exit 0
if [ "$install" = yes ] && install_browser && find_browser; then
    exit 0
fi
fail "no Chromium was found; install it (on Debian the package chromium) or Google Chrome, or name one with WAYBILL_CHROMIUM."
