# CPack runs this before it packs. Makes what Debian's policy requires of each package (copyright, a change log), and
# compressed pages of the manual.

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share)
  file(WRITE ${share}/doc/${package}/copyright
       "Copyright: 2026 the ddprun authors\n\nLicense: Apache-2.0\n On Debian systems the text is in \
/usr/share/common-licenses/Apache-2.0.\n")
  file(WRITE ${share}/doc/${package}/changelog
       "ddprun (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md in the package ddprun.\n\n \
-- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  file(GLOB pages ${share}/man/man1/*.1)
  execute_process(COMMAND gzip -9nf ${share}/doc/${package}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
