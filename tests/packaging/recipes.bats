#!/usr/bin/env bats
#
# Goal: the recipes for Spack and EasyBuild fit the sources, and the lists in the Ansible role fit each other and the
# sources. Nothing is built or installed.

load packages

readonly TOP=$BATS_TEST_DIRNAME/../.. ROLE=packaging/ansible/roles/nodestage

# copy: of the files that the checks read, to break them.
copy() {
    COPY=$BATS_TEST_TMPDIR/copy
    rm -rf "$COPY"
    mkdir "$COPY"
    (cd "$TOP" && find . \( -path ./build -o -path ./.git -o -path ./tests/cluster \) -prune -o \
        \( -name CMakeLists.txt -o -name '*.cmake' -o -path './packaging/*' -o -name recipes.py \) -type f -print0 |
        tar -c --null --files-from=-) | tar -x -C "$COPY"
}

# finds TEXT FILE SED: with FILE changed so, the check fails and says TEXT.
finds() {
    copy
    cp "$COPY/$2" "$BATS_TEST_TMPDIR/before"
    sed -i -E "$3" "$COPY/$2"
    ! cmp -s "$COPY/$2" "$BATS_TEST_TMPDIR/before"
    exits 1 python3 "$COPY/tests/packaging/recipes.py"
    [[ $output == *"$1"* ]]
}

@test "the recipes fit the sources" {
    exits 0 python3 "$TOP/tests/packaging/recipes.py"
}

@test "a recipe that does not fit is found" {
    spack=packaging/spack/spack_repo/nodestage/packages/nodestage/package.py
    easybuild=packaging/easybuild/nodestage-0.1.0-GCCcore-13.3.0.eb
    finds "$spack: does not depend on zstd, which CMake looks for" "$spack" '/depends_on\("zstd/d'
    finds "$easybuild: depends on zlib, which CMake does not look for" "$easybuild" "s/'zstd'/'zlib'/"
    finds "$spack: libarchive 2.0 is older than what CMake takes" "$spack" 's/libarchive@3.6/libarchive@2.0/'
    finds "$easybuild: sets NODESTAGE_TEST, which CMake does not know" "$easybuild" 's/NODESTAGE_TESTS/NODESTAGE_TEST/'
    finds "$spack: is for ['0.2.0'], and this tree is 0.1.0" "$spack" 's/version\("0.1.0"/version("0.2.0"/'
    finds "$easybuild: EasyBuild looks for it by the name nodestage-0.1.0-GCCcore-14.2.0.eb" "$easybuild" "s/'13.3.0'/'14.2.0'/"
    finds "CMake looks for libwonder" CMakeLists.txt '$a pkg_check_modules(libwonder REQUIRED)'
}

@test "Ansible accepts the playbooks" {
    cd "$TOP/packaging/ansible"
    ANSIBLE_HOME=$BATS_TEST_TMPDIR ansible-playbook --syntax-check -i inventory.yml site.yml remove.yml
}

@test "each setting of the role has a default or a comment, and a type" {
    cd "$TOP/$ROLE"
    diff <(grep -oE '^(# )?nodestage_[a-z_]+:' defaults/main.yml | sed 's/^# //' | sort) \
        <(grep -oE '^ +nodestage_[a-z_]+:' meta/argument_specs.yml | tr -d ' ' | sort)
}

@test "the role builds with the packages that scripts/lib.bash builds with" {
    # shellcheck source=scripts/lib.bash
    wanted=$(. "$TOP/scripts/lib.bash" && printf '%s\n' "${k_build_packages[@]}" | sort)
    listed=$(python3 -c 'import sys, yaml; print(*yaml.safe_load(open(sys.argv[1]))["nodestage_build_packages_of"]["apt"], sep="\n")' \
        "$TOP/$ROLE/vars/main.yml" | sort)
    diff <(echo "$wanted") <(echo "$listed")
}
