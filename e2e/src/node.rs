//! Asking the Valkey of a pod. On the testbed this machine reaches pods, and a question costs a packet; elsewhere `valkey-cli` is started
//! in the pod, which costs the node a process. IO.

use crate::{exec, test::Test};
use anyhow::{Context, Result};
use api::names;
use k8s_openapi::api::core::v1::Pod;
use std::{net::IpAddr, time::Duration};
use valkey::{Address, CallError, Connection, Reply};

const PORT: u16 = 6379;
/// A node that is cut off does not answer at all, and whoever waits for something asks again.
const DEADLINE: Duration = Duration::from_secs(10);

/// The answer as `valkey-cli` prints it: lists have a line for each element, a refusal is its text.
pub async fn ask(test: &Test, pod: &str, command: &[&str]) -> Result<String> {
    // An option is for the program itself.
    let option = command.first().is_some_and(|word| word.starts_with('-'));
    if test.environment.is_external() || option {
        return in_pod(test, pod, command).await;
    }
    let mut connection = Connection::open(&address(test, pod).await?, DEADLINE).await?;
    match connection.call(command).await {
        Ok(reply) => Ok(text(reply)),
        Err(CallError::Refused(refusal)) => Ok(refusal.to_string()),
        Err(error) => Err(error).with_context(|| format!("ask {pod} for {command:?}")),
    }
}

async fn in_pod(test: &Test, pod: &str, command: &[&str]) -> Result<String> {
    let words: Vec<&str> = std::iter::once("valkey-cli").chain(command.iter().copied()).collect();
    let output = exec::exec(&test.api::<Pod>(), pod, Some(names::container::VALKEY), &words).await?;
    Ok(output.success()?.trim_end().to_owned())
}

async fn address(test: &Test, pod: &str) -> Result<Address> {
    let found = test.api::<Pod>().get(pod).await.with_context(|| format!("read pod {pod}"))?;
    let ip = found.status.and_then(|status| status.pod_ip).with_context(|| format!("{pod} has no address"))?;
    let ip: IpAddr = ip.parse().with_context(|| format!("the address of {pod} is {ip:?}"))?;
    Ok(Address::Tcp((ip, PORT).into()))
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Array(elements) => elements.into_iter().map(text).collect::<Vec<_>>().join("\n"),
        Reply::Null => String::new(),
        other => other.into_text().trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_line_for_each_element_however_deep() {
        let role = Reply::Array(vec![
            Reply::Bulk(b"master".to_vec()),
            Reply::Integer(7),
            Reply::Array(vec![Reply::Bulk(b"10.0.0.1".to_vec()), Reply::Null]),
        ]);
        assert_eq!(text(role), "master\n7\n10.0.0.1\n");
    }
}
