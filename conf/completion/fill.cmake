# cmake -D PROGRAM=… -D FROM=… -D TO=… -P fill.cmake: a completion with the keys that PROGRAM prints
# (cli/completion/option_keys.cpp).
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE NODESTAGE_OPTION_KEYS OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
configure_file(${FROM} ${TO} @ONLY)
