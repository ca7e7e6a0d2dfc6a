#!/bin/sh
# Starts this bundle on PostgreSQL. Usage: sh start.sh check | load [DSN] | local DIR | compose | queries [DSN]
set -eu
what=${1:-help}
[ $# -eq 0 ] || shift
case $what in
  local)
    # A server of its own: reached by a socket in DIR alone, and by whoever may enter DIR.
    mkdir -m 700 "$1"
    place=$(cd "$1" && pwd)
    case $place in *[!A-Za-z0-9/._-]*) echo "DIR: letters, digits, / . _ - only" >&2; exit 2 ;; esac
    ;;
esac
cd "$(dirname "$0")"
load() { psql -X -q -v ON_ERROR_STOP=1 -f load.sql "$@"; }
case $what in
  check)
    if command -v sha256sum >/dev/null; then sha256sum -c --quiet SHA256SUMS
    else shasum -a 256 -c --quiet SHA256SUMS; fi
    ;;
  load) load "$@" ;;
  local)
    initdb -D "$place/data" -U postgres -A trust -E UTF8 --no-locale >"$place/initdb.log"
    pg_ctl -D "$place/data" -w -l "$place/log" \
      -o "-c listen_addresses= -c unix_socket_directories=$place" start >/dev/null
    psql -X -q -h "$place" -U postgres -d postgres -c 'CREATE DATABASE benchmark'
    load -h "$place" -U postgres -d benchmark
    echo "psql -h $place -U postgres benchmark"
    echo "pg_ctl -D $place/data stop"
    ;;
  compose) docker compose up --wait "$@" ;;
  queries) psql -X -q -v ON_ERROR_STOP=1 -o /dev/null -c '\timing on' -f workload/queries.sql "$@" ;;
  *) sed -n 2p "$(basename "$0")"; exit 2 ;;
esac
