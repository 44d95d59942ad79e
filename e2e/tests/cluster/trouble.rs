//! What goes wrong at run time is named in the conditions and told once, within seconds, and clusters beside it are unharmed.

use anyhow::Result;
use e2e::{Cluster, Scenario, Test, Verdict, cluster, measurement, process, wait_for_list};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Kubelets try images and crashing containers several times in this time.
const LONG_ENOUGH: Duration = Duration::from_secs(25);

struct Trouble {
    name: &'static str,
    fields: Value,
    reason: &'static str,
    told: &'static [&'static str],
    /// Whether Kubernetes itself reports it in this pod.
    is_in: fn(&Pod) -> bool,
}

fn troubles() -> [Trouble; 5] {
    let elsewhere = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["nowhere"]}]}]}});
    [
        Trouble {
            name: "wrong-tag",
            fields: json!({"valkeyImage": {"name": cluster::IMAGE, "tag": "9.1.99"}}),
            reason: "ImagePullFailed",
            told: &["docker.io/valkey/valkey:9.1.99", "wrong-tag-"],
            is_in: |pod| waits_for(pod, &["ErrImagePull", "ImagePullBackOff"]),
        },
        Trouble {
            name: "homeless",
            fields: json!({"nodeAffinity": elsewhere}),
            reason: "PodUnschedulable",
            told: &["homeless-", "node affinity"],
            is_in: is_unschedulable,
        },
        Trouble {
            name: "classless",
            fields: json!({"pvc": {"storageSize": "300Mi", "storageClassName": "no-such-class"}}),
            reason: "StorageClassMissing",
            told: &["classless-", "no-such-class"],
            is_in: is_unschedulable,
        },
        Trouble {
            name: "crashing",
            fields: json!({"config": {"tcp-backlog": "nonsense"}}),
            reason: "ValkeyCrashLooping",
            told: &["container valkey of pod crashing-", "exit code 1"],
            is_in: |pod| waits_for(pod, &["CrashLoopBackOff"]) && is_in_a_loop(pod),
        },
        Trouble {
            name: "moduleless",
            fields: json!({"modules": [{"path": "/nowhere/none.so"}]}),
            reason: "ValkeyCrashLooping",
            told: &["pod moduleless-", "module /nowhere/none.so failed to load: ", "correct spec.modules"],
            is_in: |pod| waits_for(pod, &["CrashLoopBackOff"]) && is_in_a_loop(pod),
        },
    ]
}

#[test]
fn each_trouble_is_named_once_within_seconds_and_harms_nobody_else() -> Result<()> {
    Scenario::named("each-trouble-is-named-once-within-seconds").run(async |test| {
        let healthy = Cluster::create(test, "healthy", json!({})).await?;
        let since = ready_since(&healthy).await?;
        let troubles = troubles();
        futures::future::try_join_all(troubles.iter().map(|trouble| is_named(test, trouble).boxed_local())).await?;
        test.hold("each trouble is told once", LONG_ENOUGH, async || told_once(test, &troubles).await).await?;
        assert_eq!(ready_since(&healthy).await?, since, "the healthy cluster was harmed");
        recovers(test).await
    })
}

async fn is_named(test: &Test, trouble: &Trouble) -> Result<()> {
    let cluster = Cluster::create(test, trouble.name, trouble.fields.clone()).await?;
    let (reported, said) = tokio::try_join!(reported(test, &cluster, trouble), said(&cluster, trouble.reason))?;
    let late = said.0.saturating_duration_since(reported);
    measurement::record(test, &format!("{} after Kubernetes reported it", trouble.reason), late)?;
    for part in trouble.told {
        assert!(said.1.contains(part), "{part} is not in: {}", said.1);
    }
    Ok(())
}

/// When the first pod is in trouble by Kubernetes' own word.
async fn reported(test: &Test, cluster: &Cluster<'_>, trouble: &Trouble) -> Result<Instant> {
    let what = format!("Kubernetes to report the trouble of {}", trouble.name);
    let judge = |pods: &[Pod]| {
        let found = pods.iter().any(trouble.is_in);
        Verdict::when(found, || pods.iter().map(e2e::ready::describe_pod).collect::<Vec<_>>().join("; "))
    };
    wait_for_list(test.api::<Pod>(), &cluster.selector(), &what, e2e::PATIENCE, judge).await?;
    Ok(Instant::now())
}

async fn said(cluster: &Cluster<'_>, reason: &str) -> Result<(Instant, String)> {
    let condition = cluster.says("Degraded", "True", Some(reason)).await?;
    let at = Instant::now();
    cluster.says("Ready", "False", Some(reason)).await?;
    Ok((at, condition.message))
}

async fn told_once(test: &Test, troubles: &[Trouble]) -> Result<()> {
    for trouble in troubles {
        let told = Cluster::named(test, trouble.name).warnings().await?;
        let once = matches!(told.as_slice(), [only] if only.reason == trouble.reason && only.times == 1);
        assert!(once, "{} was told as {told:?}", trouble.name);
    }
    Ok(())
}

async fn ready_since(cluster: &Cluster<'_>) -> Result<String> {
    let ready = cluster.ready().await?;
    let condition = cluster::condition(&ready, "Ready").expect("a Ready cluster says so");
    Ok(format!("{:?}", condition.last_transition_time))
}

/// A corrected spec helps as soon as the pods are replaced, and that is told too.
async fn recovers(test: &Test) -> Result<()> {
    let corrected = Cluster::named(test, "wrong-tag");
    corrected.edit(json!({"valkeyImage": {"name": cluster::IMAGE, "tag": "9.1"}})).await?;
    corrected.replace_pods(0..3).await?;
    corrected.ready().await?;
    corrected.says("Degraded", "False", Some("AsExpected")).await?;
    let told = corrected.events().await?;
    assert!(told.iter().any(|event| event.reason == "AsExpected"), "{told:?}");
    Ok(())
}

fn waits_for(pod: &Pod, reasons: &[&str]) -> bool {
    process::container_statuses(pod).any(|status| {
        let reason = status.state.as_ref().and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        reason.is_some_and(|reason| reasons.contains(&reason))
    })
}

/// One end is none, nor are two.
fn is_in_a_loop(pod: &Pod) -> bool {
    process::container_statuses(pod).any(|status| status.restart_count >= 2)
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
}
