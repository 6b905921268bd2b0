# The queue of what scripts/test runs. An item is a command with a name. It starts when its lane has room and what it needs
# has succeeded, those added first before others, and its output is shown when it has ended. after_NAME, if there is such a
# function, is called when the item NAME has succeeded, and can add further ones.
# $queue_logs is a directory. Sourced by scripts/test.
# shellcheck shell=bash disable=SC2154  # of scripts/test

# The items of a lane that run at a time. Suites wait most of the time; the work of the other lanes goes on meanwhile, and a
# build that others need before work that nothing waits for.
declare -A k_lanes=([suite]=$(($(nproc) + 2)) [build]=1 [work]=$(($(nproc) + 1)) [package]=1)
declare -A k_nice=([suite]=0 [build]=5 [work]=10 [package]=10)

# Of each item: its lane, the part of the tests that it is, its name, the names of the items that it needs, its command, and
# its state: waiting, running, passed, or failed.
item_lane=() item_part=() item_name=() item_needs=() item_command=() item_state=() item_begun=()
declare -A item_of=() part_seconds=() part_items=() item_seconds=()

# add LANE PART NAME NEEDS COMMAND...: count_PART LOG NAME CODE counts what the item has shown. NEEDS are words.
add() {
  item_lane+=("$1") item_part+=("$2") item_name+=("$3") item_needs+=("$4") item_state+=(waiting)
  item_command+=("$(printf '%q ' "${@:5}")")
}

# succeeded NAME...: whether all items of these names have.
succeeded() {
  local number
  for number in "${!item_name[@]}"; do
    [[ " $* " != *" ${item_name[number]} "* || ${item_state[number]} == passed ]] || return 1
  done
}

run_item() {
  renice -n "${k_nice[${item_lane[$1]}]}" "$BASHPID" >/dev/null
  eval "${item_command[$1]}" >"$queue_logs/$1" 2>&1
}

# Starts what can start.
start_items() {
  local number lane
  declare -A running=()
  for number in "${item_of[@]}"; do
    lane=${item_lane[number]}
    running[$lane]=$((${running[$lane]-0} + 1))
  done
  for number in "${!item_name[@]}"; do
    lane=${item_lane[number]}
    # shellcheck disable=SC2086  # words
    [ "${item_state[number]}" = waiting ] && [ "${running[$lane]-0}" -lt "${k_lanes[$lane]}" ] &&
      succeeded ${item_needs[number]} || continue
    item_state[number]=running item_begun[number]=$SECONDS
    begin run_item "$number"
    item_of[$!]=$number
    running[$lane]=$((${running[$lane]-0} + 1))
  done
}

# end_item NUMBER CODE
end_item() {
  local part=${item_part[$1]} name=${item_name[$1]} seconds=$((SECONDS - ${item_begun[$1]}))
  item_state[$1]=$([ "$2" = 0 ] && echo passed || echo failed)
  part_seconds[$part]=$((${part_seconds[$part]-0} + seconds))
  part_items[$part]=$((${part_items[$part]-0} + 1))
  item_seconds[$name]=$((${item_seconds[$name]-0} + seconds))
  "count_$part" "$queue_logs/$1" "$name" "$2" "$seconds"
  [ "$2" != 0 ] || ! declare -F "after_$name" >/dev/null || "after_$name"
}

# Runs all items, those that are added meanwhile too.
run_queue() {
  local pid code number
  while :; do
    start_items
    [ "${#item_of[@]}" -gt 0 ] || break
    code=0
    wait -n -p pid "${!item_of[@]}" || code=$?
    number=${item_of[$pid]}
    unset "item_of[$pid]"
    end_item "$number" "$code"
  done
  for number in "${!item_name[@]}"; do
    [ "${item_state[number]}" != waiting ] || fail "${item_name[number]} did not run, since what it needs has failed: ${item_needs[number]}"
  done
}

# show_times: where the time went.
show_times() {
  local part name
  say "where the time went"
  for part in "${!part_seconds[@]}"; do
    printf '%6d s in %3d items: %s\n' "${part_seconds[$part]}" "${part_items[$part]}" "$part"
  done | sort -rn
  echo "the longest items:"
  for name in "${!item_seconds[@]}"; do
    printf '%6d s %s\n' "${item_seconds[$name]}" "$name"
  done | sort -rn | head -n 12
  printf '%6d s from the start to the end\n' "$SECONDS"
}
