//! Who holds a pod's token, by the API server's word, and until when that word is good. Pure.

use api::names::LINE_AUDIENCE;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use k8s_openapi::jiff::Timestamp;
use link::server::ProofError;
use serde_json::Value;
use std::collections::BTreeMap;

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const ACCOUNT: &str = "system:serviceaccount:";

/// The pod a token was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub namespace: String,
    pub service_account: String,
    pub pod: String,
    pub pod_uid: String,
}

/// What a review says.
pub fn holder(status: &TokenReviewStatus) -> Result<Holder, ProofError> {
    if status.authenticated != Some(true) {
        let why = status.error.clone().unwrap_or_else(|| "the API server does not know it".to_owned());
        return Err(ProofError::Refused(why));
    }
    // An API server that ignores audiences would accept a token made for anything.
    if !status.audiences.iter().flatten().any(|audience| audience == LINE_AUDIENCE) {
        return Err(ProofError::Refused(format!("it is not for the audience {LINE_AUDIENCE}")));
    }
    let user = status.user.clone().unwrap_or_default();
    let account = user.username.as_deref().and_then(|name| name.strip_prefix(ACCOUNT)?.split_once(':'));
    let (namespace, service_account) = account.ok_or_else(|| refused("it is no service account's"))?;
    let extra = user.extra.unwrap_or_default();
    let pod = only(&extra, POD_NAME).zip(only(&extra, POD_UID));
    let (pod, pod_uid) = pod.ok_or_else(|| refused("it is bound to no pod: it must be a projected token"))?;
    Ok(Holder { namespace: namespace.to_owned(), service_account: service_account.to_owned(), pod, pod_uid })
}

fn refused(why: &str) -> ProofError {
    ProofError::Refused(why.to_owned())
}

fn only(extra: &BTreeMap<String, Vec<String>>, key: &str) -> Option<String> {
    match extra.get(key)?.as_slice() {
        [value] => Some(value.clone()),
        _ => None,
    }
}

/// Namespace, name and UID of the pod that a token says it was made for. Nobody has vouched for it.
pub fn claimed_pod(token: &str) -> Option<(String, String, String)> {
    let claims = claims(token)?;
    let text = |pointer: &str| Some(claims.pointer(&format!("/kubernetes.io/{pointer}"))?.as_str()?.to_owned());
    Some((text("namespace")?, text("pod/name")?, text("pod/uid")?))
}

fn claims(token: &str) -> Option<Value> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&payload).ok()
}

/// When a token ends, as it says itself; only worth asking once the API server has vouched for it.
pub fn expiry(token: &str) -> Option<Timestamp> {
    let claims = claims(token)?;
    Timestamp::from_second(claims.get("exp")?.as_i64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn review(change: impl FnOnce(&mut Value)) -> TokenReviewStatus {
        let mut status = json!({ "authenticated": true, "audiences": [LINE_AUDIENCE], "user": {
            "username": "system:serviceaccount:team-a:orders-valkey",
            "extra": { POD_NAME: ["orders-0"], POD_UID: ["uid-0"] } } });
        change(&mut status);
        serde_json::from_value(status).unwrap()
    }

    fn refusal(change: impl FnOnce(&mut Value)) -> String {
        holder(&review(change)).unwrap_err().to_string()
    }

    #[test]
    fn a_token_of_a_pod_names_it() {
        let found = holder(&review(|_| {})).unwrap();
        assert_eq!((found.namespace.as_str(), found.service_account.as_str()), ("team-a", "orders-valkey"));
        assert_eq!((found.pod.as_str(), found.pod_uid.as_str()), ("orders-0", "uid-0"));
    }

    #[test]
    fn what_is_no_token_of_a_pod_for_this_audience_is_refused_with_the_reason() {
        assert_eq!(refusal(|status| status["authenticated"] = json!(false)), "the API server does not know it");
        assert_eq!(refusal(|status| *status = json!({ "error": "it has expired" })), "it has expired");
        assert!(refusal(|status| status["audiences"] = json!(["https://kubernetes"])).contains("audience"));
        assert!(refusal(|status| status["audiences"] = Value::Null).contains("audience"));
        assert!(refusal(|status| status["user"]["username"] = json!("alice")).contains("service account"));
        assert!(refusal(|status| status["user"]["extra"] = json!({})).contains("bound to no pod"));
    }

    #[test]
    fn a_token_says_when_it_ends() {
        let claims = URL_SAFE_NO_PAD.encode(br#"{"exp":1700000000}"#);
        assert_eq!(expiry(&format!("head.{claims}.signature")), Timestamp::from_second(1_700_000_000).ok());
        assert_eq!(expiry("no token"), None);
    }

    #[test]
    fn a_token_says_of_which_pod_it_is() {
        let claims =
            json!({ "kubernetes.io": { "namespace": "team-a", "pod": { "name": "orders-0", "uid": "uid-0" } } });
        let token = format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let text = |text: &str| text.to_owned();
        assert_eq!(claimed_pod(&token), Some((text("team-a"), text("orders-0"), text("uid-0"))));
        assert_eq!(claimed_pod("no token"), None);
    }
}
