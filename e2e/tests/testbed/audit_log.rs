//! The audit log tells who wrote what, and how often.

use e2e::{Scenario, Test, Verdict, test::PATIENCE};
use k8s_openapi::api::{authentication::v1::SelfSubjectReview, core::v1::ConfigMap};
use kube::{
    Api,
    api::{ListParams, ObjectMeta, PostParams},
};

#[test]
fn the_audit_log_shows_writes_by_name_and_number() -> anyhow::Result<()> {
    let scenario = Scenario::named("the-audit-log-shows-writes-by-name-and-number");
    scenario.needs_testbed("it reads the API server's audit log").run(async |test| {
        let (audit, user) = (test.audit()?, own_name(test).await?);
        let mark = audit.mark()?;
        for value in ["one", "two"] {
            test.apply(&config_map("counted", value)).await?;
        }
        test.api::<ConfigMap>().list(&ListParams::default()).await?;
        test.delete_and_wait::<ConfigMap>("counted").await?;
        let writes = test
            .wait_for("the deletion in the audit log", PATIENCE, async || {
                let ours = audit.since(mark)?.by(&user).in_namespace(&test.namespace).resource("configmaps").mutating();
                let deleted = ours.entries.iter().any(|entry| entry.verb == "delete" && entry.name == "counted");
                Ok(if deleted { Verdict::Met(ours) } else { Verdict::NotYet(ours.summary()) })
            })
            .await?;
        let verbs: Vec<_> = writes.entries.iter().map(|entry| entry.verb.as_str()).collect();
        assert_eq!(verbs, ["patch", "patch", "delete"], "{}", writes.summary());
        Ok(())
    })
}

async fn own_name(test: &Test) -> anyhow::Result<String> {
    let review = Api::<SelfSubjectReview>::all(test.client())
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).expect("the server knows who asks"))
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some([("value".to_owned(), value.to_owned())].into()), ..ConfigMap::default() }
}
