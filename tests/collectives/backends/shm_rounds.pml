/* SPDX-License-Identifier: Apache-2.0
 * The order of the accesses in collectives/backends/shm/rounds.cc, for spin: every interleaving of RANKS ranks in
 * ROUNDS rounds, of which rank 0 may die at any step. A store of `round`, which is a release, reaches the others at any
 * later time, but before the store of `shown`, which is sequentially consistent, and so are `waits_for` and the bell:
 * this is what the C++ memory model allows. (Data is read and written only in an order that release and acquire
 * guarantee: that is what the assertions check.)
 *
 * Every two rounds are a call on memory of ProcessGroup::allocate(), in place: in between each rank reads its share of the
 * data of all ranks, and writes the result to all of them. With CALLS_OF_ONE_ROUND the second round of these is left
 * out: the check has to find the rank that reads too early.
 *
 * With NOBODY_DIES, no rank dies: this makes three ranks few enough states to look at all.
 *
 * With BROKEN, `waits_for` is read before `shown` is stored: the check has to find the rank that sleeps for ever.
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#define SLOT(rank, at) (2 * (rank) + (at) % 2)
#define WRITING 255
#define CELL(rank, share) (RANKS * (rank) + (share))
#ifdef CALLS_OF_ONE_ROUND
#define BEGINS_CALL true
#define ENDS_CALL true
#define DATA (2 * now)
#else
#define BEGINS_CALL (now % 2 == 1)
#define ENDS_CALL (now % 2 == 0)
#define DATA (2 * ((now + 1) / 2))
#endif
#define RESULT (DATA + 1)

byte round[2 * RANKS];    /* of a slot */
byte data[2 * RANKS];     /* of a slot: the number of the round that it is of */
byte cell[RANKS * RANKS]; /* of a rank's memory, by shares: the data, or the result, of a call */
byte on_its_way[RANKS];   /* the round whose store has yet to reach the others */
byte shown[RANKS];
byte waits_for[RANKS];
byte bell[RANKS];
bool asleep[RANKS];
bool stopped[RANKS];
bool ended[RANKS];
bool dead;

inline ring(rank) {
  bell[rank] = (bell[rank] + 1) % 8;
  asleep[rank] = false
}

inline wake_waiting() {
  if
  :: shown[me] == now -> skip
  :: else ->
#ifndef BROKEN
    atomic { on_its_way[me] == 0; shown[me] = now }
#endif
    for (other : 0 .. RANKS - 1) {
      if
      :: other != me && waits_for[other] == me + 1 -> ring(other)
      :: else
      fi
    };
    other = 0;
#ifdef BROKEN
    atomic { on_its_way[me] == 0; shown[me] = now }
#endif
  fi
}

inline sleep_for(rank) {
  do
  :: heard = bell[me];
     was_stopped = stopped[me];
     waits_for[me] = rank + 1;
     if
     :: shown[rank] >= now -> break
     :: else
     fi;
     if
     :: round[SLOT(rank, now)] == now -> break
     :: else
     fi;
     if
     :: was_stopped -> goto end
     :: else
     fi;
     atomic {                             /* the kernel's */
       if
       :: bell[me] == heard -> asleep[me] = true
       :: else
       fi
     };
     !asleep[me]
  od;
  heard = 0;
  was_stopped = false;
  waits_for[me] = 0
}

#ifdef NOBODY_DIES /* then spin may leave out orders that make no difference */
proctype one_rank(byte me) {
#else
proctype one_rank(byte me) provided (_pid != 1 || !dead) {
#endif
  byte now = 1;
  byte step;
  byte other;
  byte heard;
  bool was_stopped;
  do
  :: now > ROUNDS -> break
  :: else ->
    /* What is atomic here takes no step that others wait for: that it is not done at once shows by WRITING. */
    atomic {
      data[SLOT(me, now)] = WRITING;
      if
      :: BEGINS_CALL -> for (other : 0 .. RANKS - 1) { cell[CELL(me, other)] = WRITING }
      :: else
      fi;
      other = 0
    };
    atomic {
      if
      :: BEGINS_CALL -> for (other : 0 .. RANKS - 1) { cell[CELL(me, other)] = DATA }
      :: else
      fi;
      other = 0
    };
    data[SLOT(me, now)] = now;
    on_its_way[me] == 0;
    on_its_way[me] = now;
    for (step : 1 .. RANKS - 1) {
      if
      :: round[SLOT((me + step) % RANKS, now)] == now
      :: true -> wake_waiting(); sleep_for((me + step) % RANKS)   /* spins for long enough, or not */
      fi;
      assert(data[SLOT((me + step) % RANKS, now)] == now)
    };
    wake_waiting();
    for (step : 1 .. RANKS - 1) {
      assert(data[SLOT((me + step) % RANKS, now)] == now)           /* while it combines them */
    };
    atomic {
      step = 0;
      if
      :: BEGINS_CALL ->
        for (other : 0 .. RANKS - 1) {
          assert(cell[CELL(other, me)] == DATA);
          cell[CELL(other, me)] = RESULT
        }
      :: else
      fi;
      other = 0
    };
    atomic {
      if
      :: ENDS_CALL -> for (other : 0 .. RANKS - 1) { assert(cell[CELL(me, other)] == RESULT) }
      :: else
      fi;
      other = 0;
      now++
    }
  od;
end:
  atomic { now = 0; step = 0; other = 0; heard = 0; was_stopped = false; ended[me] = true }
}

/* The processors' store buffers. */
inline reach(rank) {
  atomic {
    on_its_way[rank] != 0 -> round[SLOT(rank, on_its_way[rank])] = on_its_way[rank];
    on_its_way[rank] = 0
  }
}
proctype memory() {
end:
  do
  :: reach(0)
  :: reach(1)
#if RANKS > 2
  :: reach(2)
#endif
  od
}

/* Of the connections between processes: rank 0 dies, and the others are told. */
proctype watch() {
  byte other;
  if
  :: true -> goto end
  :: true -> dead = true
  fi;
  for (other : 1 .. RANKS - 1) {
    stopped[other] = true;
    ring(other)
  }
end:
  skip
}

init {
  byte rank_;
  atomic {
    for (rank_ : 0 .. RANKS - 1) { run one_rank(rank_) };
#ifndef NOBODY_DIES
    run watch();
#endif
    run memory()
  };
  timeout;
  for (rank_ : 0 .. RANKS - 1) {
    assert(ended[rank_] || (rank_ == 0 && dead))
  }
}
