# Makes the page of --web one text that is compiled in, with the policy that lets a browser run its own script and
# style alone: cmake -D FOLDER=agent/web -D OUTPUT=page.cc -P embed_page.cmake
cmake_minimum_required(VERSION 3.25)

# The SHA-256 of a text, in base64, as a policy has it.
function(hash_of text result)
  string(SHA256 hex "${text}")
  string(APPEND hex "00")  # 33 bytes are 11 groups of three; the last byte is no part of the hash
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(base64 "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}" ${at} 6 three)
    foreach(shift IN ITEMS 18 12 6 0)
      math(EXPR digit "(0x${three} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${digit} 1 character)
      string(APPEND base64 "${character}")
    endforeach()
  endforeach()
  string(SUBSTRING "${base64}" 0 43 base64)
  set(${result} "'sha256-${base64}='" PARENT_SCOPE)
endfunction()

foreach(part IN ITEMS html css js)
  file(READ ${FOLDER}/page.${part} ${part})
endforeach()
hash_of("${css}" css_hash)
hash_of("${js}" js_hash)
string(REPLACE "/*page.css*/" "${css}" page "${html}")
string(REPLACE "/*page.js*/" "${js}" page "${page}")
file(WRITE ${OUTPUT} "// Made by cmake/embed_page.cmake.
#include \"agent/web/site.h\"

namespace ddprun::agent::web {

const std::string_view kPage = R\"page(${page})page\";
const std::string_view kPagePolicy =
    \"default-src 'none'; script-src ${js_hash}; style-src ${css_hash}; connect-src 'self'; \"
    \"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\";

}  // namespace ddprun::agent::web
")
