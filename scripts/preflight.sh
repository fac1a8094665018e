#!/bin/sh
# Say in one sentence what this machine lacks, or print the Python to use.
#
#   preflight.sh python   prints the path of the usable Python 3.11 (from 3.11.2 on), 3.12 or 3.13,
#                         the first that was compiled with optimizations if there is one
#   preflight.sh java     is silent when Java 17 or newer is there
set -u

fail() {
    printf 'waybill: %s\n' "$1" >&2
    exit 1
}

suitable() {
    # The newest build of 3.11 that Debian 12 has; nothing runs the tests with an older one.
    "$1" -c 'import sys; v = sys.version_info; sys.exit(not (v[:3] >= (3, 11, 2) and v[:2] <= (3, 13)))' 2>/dev/null
}

# Whether a Python was compiled with its own profile: pyenv, for one, does so only when asked, and what it builds then
# needs nearly twice the time for everything. Debian does so without stating it.
optimized() {
    "$1" -c 'import sys, sysconfig
sys.exit(not ("--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "") or sys.executable.startswith("/usr/bin/")))' 2>/dev/null
}

on_the_path() {
    for name in python3 python3.13 python3.12 python3.11 python; do
        (
            IFS=:
            for folder in $PATH; do
                [ -x "$folder/$name" ] && printf '%s\n' "$folder/$name"
            done
        )
    done
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suitable "$PYTHON" || fail "PYTHON=$PYTHON is not a working Python 3.11 (from 3.11.2 on), 3.12 or 3.13; point PYTHON at one or unset it."
    fi
    found= # the interpreter itself, should the candidate be a virtual environment's link to it
    slow=
    while IFS= read -r candidate; do
        suitable "$candidate" || continue
        found=$("$candidate" -c 'import sys; print(sys._base_executable)')
        "$found" -c 'import venv, ensurepip' 2>/dev/null || continue
        if [ -n "${PYTHON:-}" ] || optimized "$found"; then
            printf '%s\n' "$found"
            return
        fi
        slow=${slow:-$found}
    done <<EOF
${PYTHON:-$(on_the_path)}
EOF
    if [ -n "$slow" ]; then
        printf 'waybill: %s was compiled without optimizations and takes nearly twice the time; name another one with make PYTHON=/path/to/python3 after make clean.\n' "$slow" >&2
        printf '%s\n' "$slow"
        return
    fi
    if [ -n "$found" ]; then
        fail "$found cannot make virtual environments; install its venv module (on Debian and Ubuntu the package python3-venv) and run make again."
    fi
    fail "Python 3.11 (from 3.11.2 on), 3.12 or 3.13 was not found; install one of them, or name it with 'make PYTHON=/path/to/python3 ...'."
}

check_java() {
    java=java
    where="on the PATH"
    if [ -n "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java
        where="in JAVA_HOME=$JAVA_HOME"
    fi
    # The first line with a version reads: openjdk version "17.0.15" 2025-04-15, or "1.8.0_402" for Java 8.
    text=$("$java" -version 2>&1) || fail "Java 17 or newer was not found $where; install a JDK or JRE, or set JAVA_HOME to one."
    version=${text#*version \"}
    version=${version%%\"*}
    version=${version#1.}
    major=${version%%[!0-9]*}
    [ -n "$major" ] || fail "Java $where does not tell its version; install Java 17 or newer, or set JAVA_HOME to it."
    [ "$major" -ge 17 ] || fail "Java $major $where is too old; install Java 17 or newer, or set JAVA_HOME to it."
}

case "${1:-}" in
    python) find_python ;;
    java) check_java ;;
    *) fail "usage: preflight.sh python|java" ;;
esac
