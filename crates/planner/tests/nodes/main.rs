//! What the nodes are told, and the rules that are never broken.

mod cluster;
mod failover;
mod findings;
mod forming;
mod gates;
mod half_moved;
mod interrupted;
mod safety;
mod scaling;
