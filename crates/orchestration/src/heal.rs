//! Heal: a cluster that was formed becomes whole again. Each look does the first thing that is due. Pure.

use crate::decision::Reason;
use crate::join;
use crate::limits::PATIENCE;
use crate::picture::{Member, Picture, Standing};
use crate::proposal::Proposal;
use crate::record::{Kind, Step};
use crate::{findings, form, gates, ghosts, mesh, repair};

pub(crate) fn propose(picture: &Picture) -> Option<Proposal> {
    if form::applies(picture) {
        return None;
    }
    emptied(picture)
        .or_else(|| open_gates(picture))
        .or_else(|| connect(picture))
        .or_else(|| repair::propose(picture))
        .or_else(|| forget(picture))
        .or_else(|| verify(picture))
}

/// Volumes that are all empty at once were not lost one by one: a wrong mount or storage class looks the same, and an empty
/// cluster would hide it.
fn emptied(picture: &Picture) -> Option<Proposal> {
    let text = "no node of this cluster is left: every pod came back without its volume's data. Give the pods their volumes back; to \
                give the data up, delete the ValkeyCluster and create it again";
    let blocked = vec![(Reason::ShardLost, text.to_owned())];
    picture.emptied.then(|| Proposal::blocked(Kind::Heal, Step::AwaitPods, blocked))
}

fn open_gates(picture: &Picture) -> Option<Proposal> {
    let commands = gates::harmless(picture);
    (!commands.is_empty()).then(|| Proposal::new(Kind::Heal, Step::OpenGates, commands))
}

/// Nodes of ours meet again, newcomers join a shard that lacks a replica.
fn connect(picture: &Picture) -> Option<Proposal> {
    let pairings = join::pairings(picture);
    let joins = |member: &Member| pairings.iter().any(|pair| pair.replica.name() == member.name());
    let group = picture.belonging().into_iter();
    let group: Vec<Member> = group.filter(|member| member.standing != Standing::Fresh || joins(member)).collect();
    let introductions = mesh::introductions(picture, &group);
    if introductions.is_none() && pairings.is_empty() {
        return None;
    }
    let (step, mut commands) = introductions.unwrap_or((Step::Replicate, Vec::new()));
    commands.extend(join::commands(&pairings, group.len()));
    let waits = vec!["the nodes to know each other at their present addresses".to_owned()];
    Some(Proposal::new(Kind::Heal, step, commands).and_waits(waits))
}

fn forget(picture: &Picture) -> Option<Proposal> {
    let commands = ghosts::forget(picture);
    (!commands.is_empty()).then(|| Proposal::new(Kind::Heal, Step::Forget, commands))
}

/// A heal that was begun ends when the nodes agree, or when only time can help.
fn verify(picture: &Picture) -> Option<Proposal> {
    let healing = picture.running.filter(|running| running.kind == Kind::Heal)?;
    let verified_for = picture.step_age(Kind::Heal).filter(|_| healing.step == Step::Verify);
    let doubts = findings::doubts(picture);
    let give_up = verified_for.is_some_and(|age| age > PATIENCE * 3);
    (!doubts.is_empty() && !give_up).then(|| Proposal::waiting(Kind::Heal, Step::Verify, doubts))
}
