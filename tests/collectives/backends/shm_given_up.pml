/* SPDX-License-Identifier: Apache-2.0
 * A long message that its receiver reads piece by piece where the sender has it (collectives/backends/cpu/peer.cc), and a
 * sender that may give up at any time, as after its time-out: it says so (ShmRing::give_up, MemoryMark::remove), and its
 * program has the memory back and writes to it. No piece that was read then is taken for what was sent.
 *
 * A fence is what keeps two accesses to memory in their order: without it they are made in either order here. The flag
 * and the mark are both `given_up`: the kernel copies the mark after the data, as the receiver looks at the flag.
 *
 * The check has to find four mistakes. SENDER_WITHOUT_FENCE: the program's first write is seen before the flag.
 * RECEIVER_WITHOUT_FENCE: the flag is read before the data. ONCE: the flag is looked at before the first piece alone.
 * TAKEN_FIRST: the sender hears that a piece is taken before it is.
 */
#define PIECES 2
#define SENT 1
#define CHANGED 2

byte data[PIECES];
bool given_up;
byte taken; /* pieces of which the sender has heard */

inline change(piece) {
  data[piece] = CHANGED
}

/* In any order of the pieces, as a program may. */
inline change_all() {
  if
  :: change(0); change(1)
  :: change(1); change(0)
  fi
}

inline give_up() {
#ifdef SENDER_WITHOUT_FENCE
  if
  :: change(0)
  :: change(1)
  :: skip
  fi;
#endif
  given_up = true
}

/* Reads a piece, and whether the sender had given up by then. */
inline look_at(piece) {
#ifdef RECEIVER_WITHOUT_FENCE
  if
  :: value = data[piece]; is_void = given_up
  :: is_void = given_up; value = data[piece]
  fi
#else
#ifdef ONCE
  if
  :: piece == 0 -> is_void = given_up
  :: else
  fi;
  value = data[piece]
#else
  value = data[piece];
  is_void = given_up
#endif
#endif
}

active proctype sender() {
  atomic { data[0] = SENT; data[1] = SENT; run receiver() };
  do
  :: taken == PIECES -> break /* the message is complete */
  :: taken < PIECES -> give_up(); break
  od;
  change_all()
}

proctype receiver() {
  byte piece;
  byte value;
  bool is_void;
  do
  :: piece == PIECES -> break
  :: piece < PIECES ->
#ifdef TAKEN_FIRST
    taken++;
#endif
    look_at(piece);
    if
    :: is_void -> break /* it asks for the data, and finds the end of the connection */
    :: else
    fi;
    assert(value == SENT);
#ifndef TAKEN_FIRST
    taken++;
#endif
    piece++
  od
}
