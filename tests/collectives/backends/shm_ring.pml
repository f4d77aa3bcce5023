/* SPDX-License-Identifier: Apache-2.0
 * The ring of collectives/backends/shm/ring.cc, for spin: a writer and a reader, each of which looks by itself or sleeps
 * until the other wakes it, in every interleaving. Lengths, `read` and `sleeps` are sequentially consistent there, as
 * here. Records have one line or two. No byte is taken for a length, read before it was written, or written before the
 * one in its place was read, and neither end sleeps for ever.
 *
 * The check has to find three mistakes. BROKEN: an end looks before it says that it sleeps. STALE: a record does not
 * clear the length of the next. CROWDED: it needs no room for that.
 */
#define LINES 4
#define RECORDS 5
#define WRITING 255
#define READING 254
#ifdef CROWDED
#define LEAST 1
#else
#define LEAST 2 /* for one line of bytes, and the length of the next record */
#endif

byte first[LINES];  /* what each line begins with: the length of a record, in lines, or bytes that look like one */
byte record[LINES]; /* the record in the line, from 1; 0: it was read */
byte there;         /* lines of all records that are written */
byte read;          /* the same that are read */
bool reader_sleeps = true; /* until the writer has said that it uses the ring */
bool writer_sleeps;
byte wakes_of_reader; /* on their way through the connection */
byte wakes_of_writer;
bool writer_ended;
bool reader_ended;

inline wake(sleeps, wakes) {
  if
  :: sleeps ->
    atomic {
      if
      :: sleeps -> sleeps = false; wakes++
      :: else
      fi
    }
  :: else
  fi
}

inline sleep_unless(is_ready, sleeps, wakes) {
#ifdef BROKEN
  if
  :: is_ready -> skip
  :: else -> sleeps = true; atomic { wakes > 0; wakes-- }
  fi
#else
  sleeps = true;
  if
  :: is_ready -> skip /* a wake may come that is not needed */
  :: else -> atomic { wakes > 0; wakes-- }
  fi
#endif
}

inline fill(at) {
  assert(record[(at) % LINES] == 0);
  record[(at) % LINES] = WRITING;
  record[(at) % LINES] = number
}

inline take(at) {
  assert(record[(at) % LINES] == number);
  record[(at) % LINES] = READING;
  record[(at) % LINES] = 0
}

proctype writer() {
  byte own, number, room, lines;
  do
  :: number == RECORDS -> break
  :: number < RECORDS ->
    room = LINES - (own - read);
    if
    :: room < LEAST -> sleep_unless(LINES - (own - read) >= LEAST, writer_sleeps, wakes_of_writer)
    :: room >= LEAST ->
      number++;
      lines = 1;
      fill(own);
      if
      :: room > LEAST -> lines = 2; fill(own + 1); first[(own + 1) % LINES] = 1
      :: true
      fi;
#ifndef STALE
      first[(own + lines) % LINES] = 0;
#endif
      atomic { first[own % LINES] = lines; there = own + lines };
      own = own + lines;
      wake(reader_sleeps, wakes_of_reader)
    fi
  od;
  writer_ended = true
}

proctype reader() {
  byte own, number, lines;
  do
  :: number == RECORDS -> break
  :: number < RECORDS ->
    lines = first[own % LINES];
    if
    :: lines == 0 -> sleep_unless(first[own % LINES] != 0, reader_sleeps, wakes_of_reader)
    :: lines != 0 ->
      assert(own + lines <= there);
      number++;
      take(own);
      if
      :: lines == 2 -> take(own + 1)
      :: else
      fi;
      own = own + lines;
      read = own;
      wake(writer_sleeps, wakes_of_writer)
    fi
  od;
  reader_ended = true
}

init {
  atomic { run writer(); run reader() };
  timeout;
  assert(writer_ended && reader_ended)
}
