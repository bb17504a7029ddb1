"""
The simulator: whole clusters under dense, seeded faults, and what must hold.

Several real Coordinators, nothing faked above the transport, live on one virtual
clock with the embedded Consul.  A seed gives a schedule (:mod:`.schedule`): who
plays (:mod:`.cast`), and the faults that happen to them (:mod:`.faults`), all of
it data.  Under the leader that places items by resources there is more to happen
(:mod:`.faults.resources`), and more that must hold (:mod:`.placing`).  While it
is played (:mod:`.play`) every event is looked at: by the laws (:mod:`.laws`), and
by the audit of Consul's log (:mod:`.audit`); what really runs is known from the
floor (:mod:`.floor`).  When the trouble is over everything must be well again,
and stay so (:mod:`.recovery`).

A breach is shown with its seed, the shortest schedule that leads to it
(:mod:`.shorten`), and what happened before (:mod:`.report`).  Twelve deliberate bugs
(:mod:`.bugs`) show that breaches are found.

    python -m tests.simulation --help
"""
