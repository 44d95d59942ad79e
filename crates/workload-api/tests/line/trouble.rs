//! The Workload API goes away, denies, takes back, or says nonsense.

use crate::{
    ends::{OperatorEnd, SidecarEnd},
    world::{HOUR, SIDECAR, World, soon, times, until},
};
use anyhow::{Context, Result, ensure};
use link::IdentitySource;
use std::time::Duration;
use tonic::Status;
use workload_api::{Source, Times};

fn says(source: &Source, part: &str) -> bool {
    source.problem().is_some_and(|problem| problem.contains(part))
}

#[tokio::test]
async fn an_identity_that_is_registered_later_is_found() -> Result<()> {
    let world = World::empty()?;
    let source = world.sidecars_source()?;
    until("the denial", || says(&source, "gives this workload no identity: no identity issued")).await?;
    world.renew()?;
    let current = soon("the identity", source.current()).await?;
    ensure!(current.borrow().id().to_string() == SIDECAR);
    until("no problem", || source.problem().is_none()).await
}

#[tokio::test]
async fn a_socket_that_appears_later_is_found() -> Result<()> {
    let mut world = World::new()?;
    world.sidecars_agent.stop();
    let source = world.sidecars_source()?;
    until("the problem", || says(&source, "could not reach the Workload API at unix:///")).await?;
    world.sidecars_agent.start()?;
    soon("the identity", source.current()).await?;
    until("no problem", || source.problem().is_none()).await
}

#[tokio::test]
async fn when_the_socket_goes_away_the_last_identity_stays_and_new_connections_are_made_with_it() -> Result<()> {
    let mut world = World::new()?;
    let sources = [world.operators_source()?, world.sidecars_source()?];
    let operator = OperatorEnd::start(soon("the operator's identity", sources[0].current()).await?).await?;
    let current = soon("the sidecar's identity", sources[1].current()).await?;
    world.operators_agent.stop();
    world.sidecars_agent.stop();
    for source in &sources {
        until("the problem", || says(source, "could not reach")).await?;
    }
    let sidecar = SidecarEnd::start(operator.address, current.clone())?;
    until("heartbeats", || operator.beats() > 1).await?;
    let before = sidecar.shows();
    world.renew()?;
    world.operators_agent.start()?;
    world.sidecars_agent.start()?;
    until("the new identity in use", || sidecar.shows() != before).await?;
    until("no problem", || sources.iter().all(|source| source.problem().is_none())).await?;
    ensure!(operator.refusals().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_denial_that_lasts_takes_the_identity_back_and_leaves_open_connections() -> Result<()> {
    let world = World::new()?;
    let sources = [world.operators_source()?, world.sidecars_source()?];
    let operator = OperatorEnd::start(soon("the operator's identity", sources[0].current()).await?).await?;
    let current = soon("the sidecar's identity", sources[1].current()).await?;
    let early = SidecarEnd::start(operator.address, current.clone())?;
    until("heartbeats", || operator.beats() > 0).await?;
    world.sidecars_agent.deny();
    until("the withdrawal", || current.borrow().is_withdrawn()).await?;
    let late = SidecarEnd::start(operator.address, current.clone())?;
    until("the reason", || late.problem().contains("withdrawn")).await?;
    let beats = operator.beats();
    until("heartbeats on the connection that was open", || operator.beats() > beats + 2).await?;
    ensure!(early.connected() && operator.disconnected() == 0);
    world.renew()?;
    until("the identity given again", || late.connected()).await
}

#[tokio::test]
async fn an_operator_whose_identity_was_taken_back_accepts_nobody_new() -> Result<()> {
    let world = World::new()?;
    let sources = [world.operators_source()?, world.sidecars_source()?];
    let current = soon("the operator's identity", sources[0].current()).await?;
    let operator = OperatorEnd::start(current.clone()).await?;
    world.operators_agent.deny();
    until("the withdrawal", || current.borrow().is_withdrawn()).await?;
    let sidecar = SidecarEnd::start(operator.address, soon("the sidecar's identity", sources[1].current()).await?)?;
    until("a failed handshake", || sidecar.problem().contains("handshake")).await?;
    ensure!(operator.beats() == 0);
    world.renew()?;
    until("heartbeats afterwards", || operator.beats() > 0).await
}

#[tokio::test]
async fn an_agent_that_denies_only_while_it_starts_costs_nothing() -> Result<()> {
    let world = World::new()?;
    let patient = Times { denial: HOUR, ..times() };
    let source = Source::follow(world.sidecars_agent.endpoint(), SIDECAR.parse()?, patient);
    let mut current = soon("the identity", source.current()).await?;
    current.mark_unchanged();
    world.sidecars_agent.deny();
    let calls = world.sidecars_agent.calls();
    until("several denials", || world.sidecars_agent.calls() > calls + 3).await?;
    ensure!(!current.has_changed()? && says(&source, "no identity"), "{:?}", source.problem());
    world.renew()?;
    soon("the next identity", current.changed()).await??;
    ensure!(!current.borrow().is_withdrawn());
    Ok(())
}

#[tokio::test]
async fn an_identity_that_is_no_longer_among_the_offered_is_not_used_any_more() -> Result<()> {
    let world = World::new()?;
    let source = world.sidecars_source()?;
    let current = soon("the identity", source.current()).await?;
    world.give_sidecar(vec![world.team.svid("spiffe://team-a/something-else", HOUR)?]);
    until("the withdrawal", || current.borrow().is_withdrawn()).await?;
    let problem = source.problem().context("a problem")?;
    ensure!(problem.contains(SIDECAR) && problem.contains("(spiffe://team-a/something-else)"), "{problem}");
    Ok(())
}

#[tokio::test]
async fn an_identity_that_was_never_offered_is_named_with_those_that_are() -> Result<()> {
    let world = World::empty()?;
    let svids = ["spiffe://team-a/one", "spiffe://team-a/two"].map(|id| world.team.svid(id, HOUR));
    world.give_sidecar(svids.into_iter().collect::<Result<_>>()?);
    let source = world.sidecars_source()?;
    until("the problem", || says(&source, "(spiffe://team-a/one, spiffe://team-a/two): register it")).await
}

#[tokio::test]
async fn nonsense_leaves_the_last_good_identity_in_force() -> Result<()> {
    let world = World::new()?;
    let source = world.sidecars_source()?;
    let mut current = soon("the identity", source.current()).await?;
    current.mark_unchanged();
    let mut spoiled = world.team.svid(SIDECAR, HOUR)?;
    spoiled.x509_svid.truncate(40);
    world.give_sidecar(vec![spoiled]);
    until("the problem", || says(&source, "the certificate chain of")).await?;
    world.give_sidecar(Vec::new());
    until("the next problem", || says(&source, "mandatory field svids")).await?;
    ensure!(!current.has_changed()?);
    world.renew()?;
    soon("the next identity", current.changed()).await??;
    Ok(())
}

/// By the specification, a call that can never succeed is not repeated; here not before another agent may be there.
#[tokio::test]
async fn a_call_that_can_never_succeed_is_not_repeated_in_quick_succession() -> Result<()> {
    let world = World::empty()?;
    world.sidecars_agent.say(Err(Status::unimplemented("not this profile")));
    let pause = Duration::from_millis(700);
    let once = Times { lasting_refusal: pause, ..times() };
    let began = tokio::time::Instant::now();
    let source = Source::follow(world.sidecars_agent.endpoint(), SIDECAR.parse()?, once);
    until("two calls", || world.sidecars_agent.calls() == 2).await?;
    ensure!(began.elapsed() >= pause && says(&source, "not this profile"));
    Ok(())
}

#[tokio::test]
async fn a_stream_without_news_is_asked_anew_before_the_certificate_ends() -> Result<()> {
    let world = World::empty()?;
    let brief = world.team.svid(SIDECAR, Duration::from_secs(1))?;
    world.give_sidecar(vec![brief]);
    let eager = Times { shortest_look: Duration::from_millis(100), ..times() };
    let source = Source::follow(world.sidecars_agent.endpoint(), SIDECAR.parse()?, eager);
    soon("the identity", source.current()).await?;
    until("further calls", || world.sidecars_agent.calls() > 2).await?;
    ensure!(source.problem().is_none(), "{:?}", source.problem());
    Ok(())
}
