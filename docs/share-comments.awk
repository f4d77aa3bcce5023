# SPDX-License-Identifier: Apache-2.0
# Tells Doxygen what readers of a class see: a comment is of all members down to the next empty line.
/^  \/\/\/ / && !inside { inside = 1; print "  ///@{" }
inside && (/^$/ || /^};/ || /^ (public|private):/) { inside = 0; print "  ///@}" }
{ print }
