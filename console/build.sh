#!/bin/sh
# Builds the web console if Node is there, and says so if it is not: the binary works without it.
set -u
cd "$(dirname "$0")" || exit 1

leave_out() {
    echo "console: left out of this build, because $1 (make console says more)" >&2
    exit 0
}

command -v npm >/dev/null 2>&1 || leave_out "npm is not there"
node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' ||
    leave_out "it needs Node 20.19 or newer, and this is $(node --version)"
# npm writes this file last.
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    npm ci --no-audit --no-fund --loglevel=error || leave_out "npm ci failed"
fi
npm run --silent build || leave_out "its build failed"
