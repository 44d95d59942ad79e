//! Every command against real servers of both supported lines: done, done again, refused, failed.

mod cluster;
mod failing_over;
mod forming;
mod gate;
mod keys;
mod leaving;
mod migrating;
mod migrating_interrupted;
mod open_slots;
mod refusing;
