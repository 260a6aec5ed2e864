#!/usr/bin/env bash
# A PostgreSQL server for the tests: on a free port of this machine, in a folder of its own under TMPDIR.
#
#   postgres.sh run COMMAND...   a new server, COMMAND with WARPSMITH_TEST_DATABASE set to its URL, then no server
#   postgres.sh new              make a folder for a server and print it; its file `url` holds the URL
#   postgres.sh start FOLDER     start its server, and wait until the server answers
#   postgres.sh kill FOLDER      end all of its processes with SIGKILL
#   postgres.sh remove FOLDER    stop its server and remove the folder
set -euo pipefail

user=warpsmith
password=warpsmith

programs() {  # the folder of initdb and pg_ctl, which Debian keeps out of PATH
  if command -v pg_ctl >/dev/null; then dirname "$(command -v pg_ctl)"; return; fi
  local found
  found=$(find /usr/lib/postgresql -path '*/bin/pg_ctl' 2>/dev/null | sort -V | tail -n 1)
  [ -n "$found" ] || { echo "error: there is no PostgreSQL server. Install it with: apt-get install postgresql" >&2; exit 3; }
  dirname "$found"
}

as_owner() {  # PostgreSQL refuses to run as root; its package comes with a user
  if [ "$(id -u)" = 0 ]; then
    (cd / && setpriv --reuid=postgres --regid=postgres --init-groups --reset-env "$@")
  else
    "$@"
  fi
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

new() {
  local folder port
  folder=$(mktemp -d "${TMPDIR:-/tmp}/warpsmith-postgres.XXXXXX")
  port=$(free_port)
  printf '%s\n' "$password" >"$folder/password"
  printf 'postgresql+psycopg://%s:%s@127.0.0.1:%s/postgres\n' "$user" "$password" "$port" >"$folder/url"
  [ "$(id -u)" != 0 ] || chown -R postgres:postgres "$folder"
  as_owner "$bin/initdb" -D "$folder/data" -U "$user" --pwfile="$folder/password" --auth=scram-sha-256 \
    --encoding=UTF8 --locale=C >"$folder/log.initdb" 2>&1 || { cat "$folder/log.initdb" >&2; exit 3; }
  as_owner tee -a "$folder/data/postgresql.conf" >/dev/null <<CONF
port = $port
listen_addresses = '127.0.0.1'
unix_socket_directories = '$folder'
max_connections = 200
CONF
  echo "$folder"
}

start() {  # after a SIGKILL the first attempts meet processes of the old server that are still ending
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    as_owner "$bin/pg_ctl" -D "$1/data" -l "$1/data/log" -w -t 60 start >/dev/null 2>&1 && return
    sleep 0.3
  done
  tail -n 20 "$1/data/log" >&2
  exit 3
}

kill_all() {  # the server's processes lead process groups of their own, so each is named
  local first
  first=$(head -n 1 "$1/data/postmaster.pid")
  # shellcheck disable=SC2046 # one word a process
  kill -9 "$first" $(pgrep -P "$first") 2>/dev/null || true
}

remove() {
  as_owner "$bin/pg_ctl" -D "$1/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$1"
}

run() {
  local folder
  folder=$(new)
  # shellcheck disable=SC2064 # the folder of now
  trap "remove '$folder'" EXIT
  start "$folder"
  WARPSMITH_TEST_DATABASE=$(cat "$folder/url") "$@"
}

bin=$(programs)
action=${1:-}
shift || true
case "$action" in
  run) run "$@" ;;
  new) new ;;
  start) start "$1" ;;
  kill) kill_all "$1" ;;
  remove) remove "$1" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
