# The manual pages, the completions of shells and the schema of ddprun.toml, which ddprun itself writes from its table of flags. Not in
# sanitizer builds, whose programs the build should not run.

if(DDPRUN_SANITIZE)
  return()
endif()

set(files)
# Writes what ddprun prints with the arguments that follow into a file of the build, and installs it.
function(ddprun_prints folder name)
  set(file ${PROJECT_BINARY_DIR}/share/${folder}/${name})
  add_custom_command(OUTPUT ${file} COMMAND ddprun ${ARGN} > ${file}.new
                     COMMAND ${CMAKE_COMMAND} -E rename ${file}.new ${file}
                     DEPENDS ddprun VERBATIM)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/${folder})
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder} COMPONENT ddprun)
  set(files ${files} ${file} PARENT_SCOPE)
endfunction()

foreach(page IN ITEMS ddprun ddprun-doctor ddprun-launch ddprun-logs ddprun-ls ddprun-manifest ddprun-secret ddprun-serve
                      ddprun-stacks ddprun-status ddprun-stop ddprun-watch)
  ddprun_prints(man/man1 ${page}.1 help --man ${page})
endforeach()
ddprun_prints(bash-completion/completions ddprun --print_completion bash)
ddprun_prints(zsh/site-functions _ddprun --print_completion zsh)
ddprun_prints(fish/vendor_completions.d ddprun.fish --print_completion fish)
ddprun_prints(ddprun ddprun.schema.json help --schema)
add_custom_target(manual ALL DEPENDS ${files})
