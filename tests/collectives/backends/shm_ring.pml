/* SPDX-License-Identifier: Apache-2.0
 * The ring of collectives/backends/shm/ring.cc, for spin: a writer and a reader, each of which looks by itself or sleeps
 * until the other wakes it, in every interleaving. Counts and `sleeps` are sequentially consistent there, as here.
 * No byte is read before it was written, or written before the one in its place was read, and neither end sleeps for ever.
 *
 * With BROKEN, an end looks before it says that it sleeps: the check has to find the end that sleeps for ever.
 */
#define SIZE 2
#define BYTES 5
#define WRITING 255
#define READING 254

byte cell[SIZE]; /* 0: read; else the number of the byte, from 1 */
byte written;
byte read;
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

proctype writer() {
  byte own;
  do
  :: own == BYTES -> break
  :: own < BYTES && own - read < SIZE ->
    assert(cell[own % SIZE] == 0);
    cell[own % SIZE] = WRITING;
    cell[own % SIZE] = own + 1;
    own++;
    written = own;
    wake(reader_sleeps, wakes_of_reader)
  :: own < BYTES && own - read == SIZE -> sleep_unless(own - read < SIZE, writer_sleeps, wakes_of_writer)
  od;
  writer_ended = true
}

proctype reader() {
  byte own;
  do
  :: own == BYTES -> break
  :: own < BYTES && own < written ->
    assert(cell[own % SIZE] == own + 1);
    cell[own % SIZE] = READING;
    cell[own % SIZE] = 0;
    own++;
    read = own;
    wake(writer_sleeps, wakes_of_writer)
  :: own < BYTES && own == written -> sleep_unless(own < written, reader_sleeps, wakes_of_reader)
  od;
  reader_ended = true
}

init {
  atomic { run writer(); run reader() };
  timeout;
  assert(writer_ended && reader_ended)
}
