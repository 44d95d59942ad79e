//! Who may speak with identities from a Workload API, and what their rotation costs.

use crate::{
    ends::{OperatorEnd, SidecarEnd},
    world::{HOUR, OPERATOR, SIDECAR, World, federated, soon, until},
};
use anyhow::{Result, ensure};
use link::IdentitySource;
use workload_api::{
    Source,
    testing::{Agent, Domain},
};

/// Both ends, and the sources that must outlive them.
struct Ends {
    operator: OperatorEnd,
    sidecar: SidecarEnd,
    sources: [Source; 2],
}

async fn connect(world: &World) -> Result<Ends> {
    let sources = [world.operators_source()?, world.sidecars_source()?];
    let operator = OperatorEnd::start(soon("the operator's identity", sources[0].current()).await?).await?;
    let sidecar = SidecarEnd::start(operator.address, soon("the sidecar's identity", sources[1].current()).await?)?;
    Ok(Ends { operator, sidecar, sources })
}

#[tokio::test]
async fn operator_and_sidecar_of_two_trust_domains_find_each_other() -> Result<()> {
    let world = World::new()?;
    let ends = connect(&world).await?;
    until("heartbeats", || ends.operator.beats() > 2).await?;
    ensure!(ends.sidecar.connected() && ends.operator.refusals().is_empty(), "{:?}", ends.operator.refusals());
    ensure!(ends.sources.iter().all(|source| source.problem().is_none()));
    Ok(())
}

#[tokio::test]
async fn new_identities_at_both_ends_fail_no_call() -> Result<()> {
    let world = World::new()?;
    let ends = connect(&world).await?;
    until("the first heartbeat", || ends.operator.beats() > 0).await?;
    let problem = ends.sidecar.first_problem();
    for _ in 0..5 {
        let before = ends.sidecar.shows();
        world.renew()?;
        until("a connection with the new certificate", || ends.sidecar.shows() != before).await?;
    }
    let beats = ends.operator.beats();
    until("heartbeats afterwards", || ends.operator.beats() > beats + 2).await?;
    ensure!(!problem.is_finished(), "{:?}", problem.await?);
    ensure!(ends.operator.refusals().is_empty(), "{:?}", ends.operator.refusals());
    Ok(())
}

#[tokio::test]
async fn a_new_root_of_a_domain_fails_no_call_when_the_bundle_has_both_in_between() -> Result<()> {
    let world = World::new()?;
    let ends = connect(&world).await?;
    until("the first heartbeat", || ends.operator.beats() > 0).await?;
    let problem = ends.sidecar.first_problem();
    let next = Domain::new("team-a")?;
    let both = [world.team.bundle(), next.bundle()].concat();
    let give_operator = |bundle: &[u8]| {
        let svid = world.system.svid(OPERATOR, HOUR)?;
        world.operators_agent.give(vec![svid], [(next.id(), bundle.to_vec())].into());
        anyhow::Ok(())
    };
    give_operator(&both)?;
    let operators = ends.sources[0].current().await;
    until("both roots at the operator", || operators.borrow().trusted_roots().len() == 3).await?;
    let before = ends.sidecar.shows();
    world.give_sidecar(vec![next.svid(SIDECAR, HOUR)?]);
    until("a leaf of the new root", || ends.sidecar.shows() != before).await?;
    give_operator(&next.bundle())?;
    let beats = ends.operator.beats();
    until("heartbeats without the old root", || ends.operator.beats() > beats + 2).await?;
    ensure!(!problem.is_finished(), "{:?}", problem.await?);
    Ok(())
}

#[tokio::test]
async fn an_operator_with_another_id_is_not_obeyed() -> Result<()> {
    let world = World::new()?;
    let other = "spiffe://valkey-system/valkey-operator-of-mine";
    world.operators_agent.give(vec![world.system.svid(other, HOUR)?], federated(&world.team));
    let source = Source::follow(world.operators_agent.endpoint(), other.parse()?, crate::world::times());
    let operator = OperatorEnd::start(soon("its identity", source.current()).await?).await?;
    let sidecars = world.sidecars_source()?;
    let sidecar = SidecarEnd::start(operator.address, soon("the sidecar's", sidecars.current()).await?)?;
    until("the refusal", || sidecar.problem().contains("expected spiffe://valkey-system/valkey-operator")).await?;
    ensure!(operator.beats() == 0);
    Ok(())
}

#[tokio::test]
async fn the_sidecar_of_another_cluster_is_refused() -> Result<()> {
    let world = World::new()?;
    let other = "spiffe://team-a/valkeycluster/payments/sidecar";
    world.give_sidecar(vec![world.team.svid(other, HOUR)?]);
    let sources = [
        world.operators_source()?,
        Source::follow(world.sidecars_agent.endpoint(), other.parse()?, crate::world::times()),
    ];
    let operator = OperatorEnd::start(soon("the operator's identity", sources[0].current()).await?).await?;
    let _sidecar = SidecarEnd::start(operator.address, soon("the other's", sources[1].current()).await?)?;
    until("the refusal", || operator.refusals().contains(&"OtherCluster".to_owned())).await?;
    ensure!(operator.beats() == 0);
    Ok(())
}

/// The server of team-b signs a name of team-a; the operator federates with both.
#[tokio::test]
async fn a_root_of_another_trust_domain_does_not_make_a_sidecar() -> Result<()> {
    let world = World::new()?;
    let thief = Domain::new("team-b")?;
    let trusted = [(world.team.id(), world.team.bundle()), (thief.id(), thief.bundle())];
    world.operators_agent.give(vec![world.system.svid(OPERATOR, HOUR)?], trusted.into());
    let mut stolen = thief.svid(SIDECAR, HOUR)?;
    stolen.bundle = world.team.bundle();
    world.give_sidecar(vec![stolen]);
    let ends = connect(&world).await?;
    until("the refusal", || ends.operator.refusals().contains(&"BadSignature".to_owned())).await?;
    ensure!(ends.operator.beats() == 0);
    Ok(())
}

#[tokio::test]
async fn without_federation_the_trust_domain_is_named() -> Result<()> {
    let world = World::new()?;
    world.sidecars_agent.give(vec![world.team.svid(SIDECAR, HOUR)?], Default::default());
    let ends = connect(&world).await?;
    until("the refusal", || ends.sidecar.problem().contains("trust domain valkey-system")).await?;
    ensure!(ends.sidecar.problem().contains("federate"), "{}", ends.sidecar.problem());
    Ok(())
}

/// As one SPIRE server for a whole Kubernetes has it: no federation, and the namespace in the path.
#[tokio::test]
async fn one_trust_domain_can_serve_all_namespaces() -> Result<()> {
    let (world, all) = (World::empty()?, Domain::new("example.org")?);
    let operator_id = "spiffe://example.org/ns/valkey-system/valkey-operator";
    let sidecar_ids =
        ["team-a", "team-b"].map(|name| format!("spiffe://example.org/ns/{name}/valkeycluster/orders/sidecar"));
    world.operators_agent.give(vec![all.svid(operator_id, HOUR)?], Default::default());
    let svids = [all.svid(&sidecar_ids[0], HOUR)?, all.svid(&sidecar_ids[1], HOUR)?];
    world.sidecars_agent.give(svids.into(), Default::default());
    let follow =
        |agent: &Agent, id: &str| anyhow::Ok(Source::follow(agent.endpoint(), id.parse()?, crate::world::times()));
    let operators = follow(&world.operators_agent, operator_id)?;
    let operator = OperatorEnd::start(soon("the operator's identity", operators.current()).await?).await?;
    let sources = [follow(&world.sidecars_agent, &sidecar_ids[0])?, follow(&world.sidecars_agent, &sidecar_ids[1])?];
    let theirs = soon("the other's identity", sources[1].current()).await?;
    let _impostor = SidecarEnd::obeying(operator_id, operator.address, theirs)?;
    until("the refusal of another namespace", || operator.refusals().contains(&"OtherCluster".to_owned())).await?;
    ensure!(operator.beats() == 0);
    let own = soon("the sidecar's identity", sources[0].current()).await?;
    let sidecar = SidecarEnd::obeying(operator_id, operator.address, own)?;
    until("heartbeats", || operator.beats() > 1).await?;
    ensure!(sidecar.connected());
    Ok(())
}

/// The broken bundle of a third domain shows that the answer was read.
#[tokio::test]
async fn an_answer_that_changes_nothing_for_us_moves_nobody() -> Result<()> {
    let world = World::empty()?;
    let svid = world.team.svid(SIDECAR, HOUR)?;
    world.give_sidecar(vec![svid.clone()]);
    let source = world.sidecars_source()?;
    let mut current = soon("the identity", source.current()).await?;
    current.mark_unchanged();
    let mut trusted = federated(&world.system);
    trusted.insert("spiffe://third".to_owned(), vec![1]);
    world.sidecars_agent.give(vec![world.team.svid("spiffe://team-a/another", HOUR)?, svid], trusted);
    until("the answer", || source.problem().is_some_and(|problem| problem.contains("spiffe://third"))).await?;
    ensure!(!current.has_changed()?);
    world.give_sidecar(vec![world.team.svid(SIDECAR, HOUR)?]);
    soon("a real change", current.changed()).await??;
    Ok(())
}

#[tokio::test]
async fn a_call_without_the_guard_is_refused_by_the_server_of_the_tests_too() -> Result<()> {
    use workload_api::contract::{X509svidRequest, spiffe_workload_api_client::SpiffeWorkloadApiClient};
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("agent.sock");
    let _agent = Agent::listen(&path)?;
    let stream = hyper_util::rt::TokioIo::new(tokio::net::UnixStream::connect(&path).await?);
    let (sender, connection) =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), stream).await?;
    let connection = tokio::spawn(connection);
    let channel = link::channel::Channel { sender };
    let origin = http::Uri::from_static("http://localhost");
    let mut client = SpiffeWorkloadApiClient::with_origin(channel, origin);
    let refused = client.fetch_x509svid(X509svidRequest {}).await.err().map(|status| status.code());
    ensure!(refused == Some(tonic::Code::InvalidArgument), "{refused:?}");
    connection.abort();
    Ok(())
}
