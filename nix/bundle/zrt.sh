#!/bin/sh
# The zrt command of the bundle.
here=$(readlink -f "$0" 2>/dev/null) || here=$0
exec "${here%/*}/python3" -I -m zrt "$@"
