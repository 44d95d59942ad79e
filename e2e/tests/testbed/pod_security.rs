//! Pod Security admission guards the namespaces that tests get.

use e2e::{Scenario, workload};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;

#[test]
fn pod_security_refuses_a_privileged_pod() -> anyhow::Result<()> {
    Scenario::named("pod-security-refuses-a-privileged-pod").run(async |test| {
        let refused = test.api::<Pod>().create(&PostParams::default(), &privileged()).await;
        let Err(kube::Error::Api(status)) = refused else { panic!("not refused: {refused:?}") };
        assert_eq!(status.code, 403, "{status:?}");
        assert!(status.message.contains("violates PodSecurity \"restricted"), "{}", status.message);
        Ok(())
    })
}

#[test]
fn a_namespace_may_ask_for_another_level() -> anyhow::Result<()> {
    Scenario::named("a-namespace-may-ask-for-another-level").pod_security("privileged").run(async |test| {
        test.apply(&privileged()).await?;
        Ok(())
    })
}

fn privileged() -> Pod {
    let mut pod = workload::echo_pod("mighty");
    let container = &mut pod.spec.as_mut().expect("a built pod has a spec").containers[0];
    let security = container.security_context.as_mut().expect("a built container has a security context");
    security.privileged = Some(true);
    security.allow_privilege_escalation = None;
    pod
}
