#!/usr/bin/env bash
# Two hosts on this machine, as network namespaces, with a Dask scheduler and workers that speak TLS.
#
#   sudo benchmarks/two_hosts.sh up FOLDER      make both, with certificates and processes in FOLDER
#   sudo benchmarks/two_hosts.sh run FOLDER PROGRAM ...    run a program on the first host
#   sudo benchmarks/two_hosts.sh down FOLDER    end all of it
#
# Host one (10.77.0.1) has the scheduler, a worker and a PostgreSQL; host two (10.77.0.2) a worker.
# Needs root, iproute2, openssl, PostgreSQL's programs, and the Python with `privbench[dask]` as
# PYTHON (default: python). FOLDER must not be there yet, since root writes keys into it. The server
# trusts whoever is on this network, which nothing else reaches; its socket is for its own account.
set -euo pipefail
step="$1"; folder="$2"; shift 2
python="${PYTHON:-python}"
programs="${POSTGRES:-$(ls -d /usr/lib/postgresql/*/bin | tail -1)}"
export PYTHONWARNINGS=ignore
umask 077

on() { ip netns exec "privbench-$1" "${@:2}"; }

up() {
    mkdir "$folder"
    for host in one two; do
        ip netns add "privbench-$host"
        on "$host" ip link set lo up
    done
    ip link add pb-one netns privbench-one type veth peer name pb-two netns privbench-two
    on one ip addr add 10.77.0.1/24 dev pb-one
    on two ip addr add 10.77.0.2/24 dev pb-two
    on one ip link set pb-one up
    on two ip link set pb-two up

    # One authority, and a certificate for each host; only who has one may speak to the others.
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=authority" \
        -keyout "$folder/authority.key" -out "$folder/authority.pem" 2>/dev/null
    for host in one:10.77.0.1 two:10.77.0.2; do
        openssl req -newkey rsa:2048 -nodes -subj "/CN=${host%:*}" \
            -keyout "$folder/${host%:*}.key" -out "$folder/${host%:*}.csr" 2>/dev/null
        openssl x509 -req -days 2 -in "$folder/${host%:*}.csr" -CA "$folder/authority.pem" \
            -CAkey "$folder/authority.key" -CAcreateserial -out "$folder/${host%:*}.pem" \
            -extfile <(printf 'subjectAltName=IP:%s' "${host#*:}") 2>/dev/null
        cat > "$folder/${host%:*}.yaml" <<-YAML
	distributed:
	  comm:
	    require-encryption: true
	    tls:
	      ca-file: $folder/authority.pem
	      scheduler: {cert: $folder/${host%:*}.pem, key: $folder/${host%:*}.key}
	      worker: {cert: $folder/${host%:*}.pem, key: $folder/${host%:*}.key}
	      client: {cert: $folder/${host%:*}.pem, key: $folder/${host%:*}.key}
	  worker:
	    memory: {target: false, spill: false}
	  nanny:
	    pre-spawn-environ: {MALLOC_TRIM_THRESHOLD_: 134217728, MALLOC_MMAP_THRESHOLD_: 134217728}
	YAML
    done
    chmod 600 "$folder"/*.key

    mkdir "$folder/server"
    chown postgres "$folder/server"
    chmod 700 "$folder/server"
    chmod 755 "$folder"
    on one su postgres -c "$programs/initdb -A trust -D $folder/server/data" > /dev/null
    echo "host all all 10.77.0.0/24 trust" >> "$folder/server/data/pg_hba.conf"
    on one su postgres -c "$programs/pg_ctl -w -D $folder/server/data -l $folder/server/log \
        -o '-c listen_addresses=10.77.0.1 -c unix_socket_directories=$folder/server' start" > /dev/null

    start one scheduler --host tls://10.77.0.1 --port 8786 --no-dashboard
    start one worker tls://10.77.0.1:8786 --host tls://10.77.0.1 --nthreads 1 --no-dashboard
    start two worker tls://10.77.0.1:8786 --host tls://10.77.0.2 --nthreads 1 --no-dashboard
}

# Start a part of Dask on a host, with the certificate of that host.
start() {
    DASK_CONFIG="$folder/$1.yaml" on "$1" "$python" -m distributed.cli.dask_"$2" "${@:3}" \
        > "$folder/$1-$2.log" 2>&1 &
    sleep 3
}

down() {
    on one su postgres -c "$programs/pg_ctl -m fast -D $folder/server/data stop" > /dev/null || true
    for host in one two; do
        ip netns pids "privbench-$host" | xargs -r kill
        ip netns del "privbench-$host"
    done
}

run() { DASK_CONFIG="$folder/one.yaml" on one "$@"; }

"$step" "$@"
