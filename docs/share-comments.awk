# SPDX-License-Identifier: Apache-2.0
# Input filter for Doxygen: a comment applies to all members down to the next empty line.
/^  \/\/\/ / && !inside { inside = 1; print "  ///@{" }
inside && (/^$/ || /^};/ || /^ (public|private):/) { inside = 0; print "  ///@}" }
{ print }
