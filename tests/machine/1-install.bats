#!/usr/bin/env bats
#
# Goal: an administrator who follows docs/admin.md line by line has a site that stages: the package, Slurm's settings,
# the daemon under systemd, what doctor says, and the first job.

# shellcheck disable=SC2016
load machine

@test "before: Slurm works and does not know the options" {
    has "$(as alice 'srun --nodes=2 hostname | sort | xargs')" "n1 n2"
    fails as alice 'srun --stage-dataset=x true'
    has "$output" "unrecognized option"
}

@test "the package, by the guide's lines" {
    for host in ctl n1 n2; do
        on "$host" 'mkdir -p build/packages'
        site put "$NODESTAGE_DEB" "$host:build/packages"
        on "$host" "$(admin_block machine uid)"
        # apt would ask only if it had to fetch more.
        on "$host" "$(admin_block machine package) 2>&1"
    done
    for host in ctl n1 n2; do has "$(on "$host" 'id nodestage')" "uid=950"; done
    # Nothing was started.
    run on n1 'systemctl is-active nodestaged nodestage-workers'
    [ "$(sort -u <<<"$output")" = inactive ]
}

@test "Slurm's settings, by the guide's lines" {
    local line
    line=$(admin_block config slurm.conf)
    for host in ctl n1 n2; do on "$host" "echo '$line' >>/etc/slurm/slurm.conf"; done
    on ctl 'scontrol reconfigure'
    has "$(on ctl 'scontrol show config')" "PrologFlags             = Alloc"
    has "$(as alice 'sbatch --help')" --stage-dataset --stage-venv --stage-out
}

@test "each compute node, by the guide's lines" {
    for node in n1 n2; do
        on "$node" "$(admin_block run compute 1)"
        on "$node" "$(admin_block machine enable)"
    done
    for node in n1 n2; do has "$(on "$node" 'systemctl is-active nodestaged nodestage-workers' | xargs)" "active active"; done
}

@test "doctor has nothing more to say on a compute node and on a login node, once its advice was taken" {
    # What it says of Debian's slurmd, and how to mend it.
    for node in n1 n2; do
        has "$(on "$node" 'nodestage doctor' || true)" 'ExecStartPost=+/bin/sh -c "sleep 5; chmod 711 /var/lib/slurm/slurmd"'
        on "$node" 'mkdir -p /etc/systemd/system/slurmd.service.d && printf "%s\n" "[Service]" "ExecStartPost=+/bin/sh -c \"sleep 5; chmod 711 /var/lib/slurm/slurmd\"" \
            >/etc/systemd/system/slurmd.service.d/spool.conf && systemctl daemon-reload && systemctl restart slurmd'
    done
    for host in n1 n2 ctl; do
        wait_until 60 doctor_is_content "$host"
    done
    has "$(on n1 'nodestage doctor')" "workers confine themselves (Landlock, seccomp)" "workers have cgroups with all limits"
}

doctor_is_content() {
    local said
    said=$(on "$1" 'nodestage doctor') && [[ $said == *"problems: 0, warnings: 0"* ]] || { echo "$said"; return 1; }
}

@test "the first job, by the guide's lines" {
    wait_until 60 nodes_idle
    exits 0 as alice "$(admin_block run user 1)"
    [ "$(grep -c '^hello$' <<<"$output")" = 2 ]
}
