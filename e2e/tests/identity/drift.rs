//! The objects that show certificates are put right at once when somebody changes or deletes them; what people may set stays.

use crate::stored::{binding, bundle};
use anyhow::Result;
use api::certificates::{ValkeyCertificateBinding, ValkeyCertificateBundle, names};
use e2e::{Cluster, PATIENCE, Scenario, Verdict};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

#[test]
fn a_changed_bundle_is_put_right_and_its_rotation_policy_is_the_users() -> Result<()> {
    Scenario::named("a-changed-bundle-is-put-right").run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let wish = json!({ "spec": { "caRef": "another", "rotationPolicy": { "autoRotate": false } } });
        let api = test.api::<ValkeyCertificateBundle>();
        api.patch(&names::bundle("poc"), &PatchParams::default(), &Patch::Merge(&wish)).await?;
        test.wait_for("the bundle to be put right", PATIENCE, async || {
            let bundle = bundle(&poc).await?;
            let conditions = bundle.status.unwrap_or_default().conditions;
            let manual = conditions.iter().any(|condition| condition.reason == "RotationManual");
            let right = bundle.spec.ca_ref == names::ROOT && manual;
            Ok(Verdict::when(right, || format!("{} {conditions:?}", bundle.spec.ca_ref)))
        })
        .await?;
        assert!(!bundle(&poc).await?.spec.rotation_policy.auto_rotate);
        Ok(())
    })
}

#[test]
fn a_deleted_binding_is_back_at_once() -> Result<()> {
    Scenario::named("a-deleted-binding-is-back-at-once").run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let before = binding(&poc).await?;
        let api = test.api::<ValkeyCertificateBinding>();
        let _gone = api.delete(&names::binding("poc"), &DeleteParams::default()).await?;
        test.wait_for("the binding to be back", PATIENCE, async || {
            let found = api.get_opt(&names::binding("poc")).await?;
            let back = found.as_ref().is_some_and(|found| found.uid() != before.uid());
            Ok(Verdict::when(back, || "it is not".to_owned()))
        })
        .await?;
        assert_eq!(binding(&poc).await?.spec.active[0].thumbprint, before.spec.active[0].thumbprint);
        Ok(())
    })
}
