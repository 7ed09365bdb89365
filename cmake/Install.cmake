# cmake --install, and cpack -G DEB for Debian: the program, what shells and people read about it, units, examples.
include(GNUInstallDirs)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

install(TARGETS baton RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# The program describes itself: completion scripts and the man page are what it says.
set(described ${CMAKE_BINARY_DIR}/described)
install(CODE "
  file(MAKE_DIRECTORY \"${described}\")
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"$<TARGET_FILE:baton>\" completion \${shell}
      OUTPUT_FILE \"${described}/baton.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${CMAKE_SOURCE_DIR}/scripts/make_man_page.py\" \"$<TARGET_FILE:baton>\"
    OUTPUT_FILE \"${described}/baton.1\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${described}/baton.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME baton)
install(FILES ${described}/baton.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _baton)
install(FILES ${described}/baton.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${described}/baton.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY scripts/deploy/systemd/ DESTINATION lib/systemd/system)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs scripts/deploy proto/baton clients DESTINATION ${CMAKE_INSTALL_DOCDIR}
  PATTERN "__pycache__" EXCLUDE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME baton)
set(CPACK_PACKAGE_VENDOR baton)
set(CPACK_PACKAGE_CONTACT "baton maintainers <baton@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs one GGUF language model over several machines")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openssh-client")
include(CPack)
