# Run by cpack in each package's tree, between `install` and the packing: what packages have beyond it.
set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY})

file(GLOB_RECURSE pages ${tree}/usr/share/man/*.[0-9])
foreach(page IN LISTS pages)
  execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

set(own ${CPACK_NODESTAGE_SOURCE}/packaging)
if(CPACK_GENERATOR STREQUAL "DEB")
  # Without it CPack would make a package that depends on none of its libraries.
  find_program(shlibdeps dpkg-shlibdeps)
  if(NOT shlibdeps)
    message(FATAL_ERROR "there is no dpkg-shlibdeps: install dpkg-dev")
  endif()
  set(doc ${tree}/usr/share/doc/${CPACK_PACKAGE_NAME})
  configure_file(${own}/deb/changelog.in ${doc}/changelog.Debian @ONLY)
  file(COPY ${own}/deb/copyright DESTINATION ${doc})
  configure_file(${CPACK_NODESTAGE_SOURCE}/CHANGELOG.md ${doc}/changelog COPYONLY)
  execute_process(COMMAND gzip -9n ${doc}/changelog.Debian ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)
  configure_file(${own}/deb/lintian-overrides ${tree}/usr/share/lintian/overrides/${CPACK_PACKAGE_NAME} COPYONLY)
else()
  file(COPY ${CPACK_NODESTAGE_SOURCE}/LICENSE DESTINATION ${tree}/usr/share/licenses/${CPACK_PACKAGE_NAME})
endif()
