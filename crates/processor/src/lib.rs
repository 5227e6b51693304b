//! The change feed processor: a client library that shares a feed among workers.
//!
//! Nothing runs yet; this is the place where it will. What is settled:
//!
//! - **It depends on nothing of ours and knows only the wire.** Continuation tokens are opaque
//!   here by construction, and what works against this server works against the real service.
//! - **It stands on two traits**, `Feed` and `LeaseStore`, each with an implementation over HTTP
//!   and one in memory. Time comes in through them as well, so tests neither sleep nor guess.
//! - **Decisions are pure.** Which lease to take or leave follows from the leases, the workers
//!   and the time, in one function without side effects; one loop carries its answer out.
//! - **At least once, in order.** Changes of one partition key value reach the handler in their
//!   order; a checkpoint is written only after the handler has returned, so a crash repeats
//!   changes and never skips one.
//! - **A lease is held by its etag.** Whoever finds it changed has lost the lease, stops, and
//!   writes no checkpoint. A split range hands its position to its children.
