# Run by CPack when packages are made: writes SHA256SUMS beside them, as `sha256sum -c` reads it.
set(lines "")
foreach(package ${CPACK_PACKAGE_FILES})
  file(SHA256 ${package} digest)
  get_filename_component(name ${package} NAME)
  string(APPEND lines "${digest}  ${name}\n")
endforeach()
file(WRITE ${CPACK_OUTPUT_FILE_PREFIX}/SHA256SUMS "${lines}")
