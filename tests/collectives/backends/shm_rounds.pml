/* SPDX-License-Identifier: Apache-2.0
 * The order of the accesses in collectives/backends/shm/rounds.cc, for spin: every interleaving of RANKS ranks in
 * ROUNDS rounds, of which rank 0 may die at any step, or give up where it waits, at a time-out or an abort. A store of `round`, which is a release, reaches the others at any
 * later time, but before the store of `shown`, which is sequentially consistent, and so are `waits_for` and the bell:
 * this is what the C++ memory model allows. (Data is read and written only in an order that release and acquire
 * guarantee: that is what the assertions check.)
 *
 * Every two rounds are a call on memory of ProcessGroup::allocate(), in place: in between each rank reads its share of the
 * data of all ranks, and writes the result to all of them. With CALLS_OF_ONE_ROUND the second round of these is left
 * out: the check has to find the rank that reads too early.
 *
 * With ONE_WAY, each round is either one in which all wait for all, or one in which the data of one rank is read by the
 * others, and it waits for none. Then a rank waits for the others AHEAD rounds later (1 here, with two slots), and reads
 * their calls, which stay in their slots until then. With TOO_FAR it waits one round too late: the check has to find a
 * slot that is written again before others have read it.
 *
 * With NOBODY_DIES, no rank dies, and with NOBODY_SLEEPS, all spin for long enough: this makes three ranks few enough
 * states to look at all.
 *
 * With BROKEN, `waits_for` is read before `shown` is stored: the check has to find the rank that sleeps for ever.
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef AHEAD
#define AHEAD 1
#endif
#ifdef TOO_FAR
#define AT_MOST (AHEAD + 1)
#else
#define AT_MOST AHEAD
#endif
#define SLOTS (2 * AHEAD)
#define SLOT(rank, at) (SLOTS * (rank) + (at) % SLOTS)
#define WRITING 255
#define ALL RANKS
#define CELL(rank, share) (RANKS * (rank) + (share))
#if defined(ONE_WAY)
#define BEGINS_CALL false
#define ENDS_CALL false
#define DATA 0
#elif defined(CALLS_OF_ONE_ROUND)
#define BEGINS_CALL true
#define ENDS_CALL true
#define DATA (2 * now)
#else
#define BEGINS_CALL (now % 2 == 1)
#define ENDS_CALL (now % 2 == 0)
#define DATA (2 * ((now + 1) / 2))
#endif
#define RESULT (DATA + 1)

byte round[SLOTS * RANKS]; /* of a slot */
byte data[SLOTS * RANKS];  /* of a slot: the number of the round that it is of */
byte from[ROUNDS + 1];     /* whose data the others read in a round; ALL: all read that of all */
byte cell[RANKS * RANKS]; /* of a rank's memory, by shares: the data, or the result, of a call */
byte on_its_way[RANKS];   /* the round whose store has yet to reach the others */
byte shown[RANKS];
byte waits_for[RANKS];
byte bell[RANKS];
bool asleep[RANKS];
bool is_stopped[RANKS];
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

/* Until `rank` has shown the round `target`. */
inline sleep_for(rank) {
  do
  :: heard = bell[me];
     was_stopped = is_stopped[me];
     waits_for[me] = rank + 1;
     if
     :: shown[rank] >= target -> break
     :: else
     fi;
     if
     :: round[SLOT(rank, target)] == target -> break
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

/* Spins for long enough, or not. */
inline wait_for(rank) {
#ifdef NOBODY_SLEEPS
  round[SLOT(rank, target)] == target
#else
  if
  :: round[SLOT(rank, target)] == target
  :: true -> wake_waiting(); sleep_for(rank)
  fi
#endif
}

/* Waits for all rounds of `rank` up to this one, and reads the calls. */
inline meet(rank) {
  target = compared + 1;
  do
  :: target > now -> break
  :: else ->
    wait_for(rank);
    assert(data[SLOT(rank, target)] == target);
    target++
  od;
  target = 0
}

/* The same up to the round AT_MOST before the next, and for later ones that are there. */
inline catch_up() {
  until = now;
  for (step : 1 .. RANKS - 1) {
    target = compared + 1;
    do
    :: target > until -> break
    :: target <= until ->
      if
      :: target + AT_MOST <= now + 1 -> wait_for((me + step) % RANKS)
      :: else
      fi;
      if
      :: round[SLOT((me + step) % RANKS, target)] == target ->
        assert(data[SLOT((me + step) % RANKS, target)] == target);
        target++
      :: else -> break
      fi
    od;
    until = target - 1
  };
  compared = until;
  until = 0;
  target = 0
}

#ifdef NOBODY_DIES /* then spin may leave out orders that make no difference */
proctype one_rank(byte me) {
#else
proctype one_rank(byte me) provided (_pid != 1 || !dead) {
#endif
  byte now;
  byte compared;
  byte target;
  byte until;
  byte step;
  byte other;
  byte heard;
  bool was_stopped;
  do
  :: now == ROUNDS -> break
  :: else ->
#ifdef ONE_WAY
    if
    :: compared + AT_MOST <= now -> catch_up()
    :: else
    fi;
#endif
    /* What is atomic here takes no step that others wait for: that it is not done at once shows by WRITING. */
    atomic {
      now++;
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
    if
    :: from[now] == ALL ->
      for (step : 1 .. RANKS - 1) { meet((me + step) % RANKS) };
      compared = now
    :: from[now] != ALL && from[now] != me ->
      meet(from[now]);
      if
      :: RANKS == 2 -> compared = now
      :: else
      fi
    :: else
    fi;
#ifndef NOBODY_SLEEPS
    wake_waiting();
#endif
    for (step : 0 .. RANKS - 1) {
      if
      :: step != me && (from[now] == ALL || from[now] == step) ->
        assert(data[SLOT(step, now)] == now)                        /* while it combines or copies them */
      :: else
      fi
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
      other = 0
    }
  od;
end:
  atomic { now = 0; compared = 0; target = 0; until = 0; step = 0; other = 0; heard = 0; was_stopped = false; ended[me] = true }
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

/* Of the connections between processes: rank 0 dies, or gives up, which ends it too, and the others are told. */
proctype watch() {
  byte other;
  if
  :: true -> goto end
  :: true -> dead = true
  :: true -> is_stopped[0] = true; ring(0); ended[0]
  fi;
  for (other : 1 .. RANKS - 1) {
    is_stopped[other] = true;
    ring(other)
  }
end:
  skip
}

init {
#ifdef ONE_WAY
  byte sender;
#endif
  byte rank_;
  for (rank_ : 1 .. ROUNDS) {
#ifdef ONE_WAY
    select(sender : 0 .. ALL);
    from[rank_] = sender
#else
    from[rank_] = ALL
#endif
  };
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
