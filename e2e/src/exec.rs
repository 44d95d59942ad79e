//! Commands inside containers, and what containers wrote. IO over the API server, as a user would.

use anyhow::{Context, Result, bail};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Status};
use kube::{Api, api::AttachParams};
use tokio::io::{AsyncRead, AsyncReadExt};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl ExecOutput {
    /// The standard output, or an error that carries what the command complained about.
    pub fn success(self) -> Result<String> {
        if self.code == 0 {
            return Ok(self.stdout);
        }
        bail!("the command ended with {}: {}{}", self.code, self.stderr.trim(), self.stdout.trim())
    }
}

pub async fn exec(pods: &Api<Pod>, pod: &str, container: Option<&str>, command: &[&str]) -> Result<ExecOutput> {
    let parameters = AttachParams {
        container: container.map(str::to_owned),
        stdin: false,
        stdout: true,
        stderr: true,
        ..AttachParams::default()
    };
    let what = || format!("exec {command:?} in pod {pod}");
    let mut process = pods.exec(pod, command.iter().copied(), &parameters).await.with_context(what)?;
    let (stdout, stderr) = (process.stdout(), process.stderr());
    let status = process.take_status().context("the exec has no status channel")?;
    // Both streams are drained together: a full one would block the command for ever.
    let (stdout, stderr, status) = tokio::join!(read(stdout), read(stderr), status);
    let code = exit_code(status.as_ref()).with_context(what)?;
    Ok(ExecOutput { stdout: stdout.with_context(what)?, stderr: stderr.with_context(what)?, code })
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The kubelet reports a non-zero exit as a failed status whose causes hold the code; other failures mean the command never ran.
fn exit_code(status: Option<&Status>) -> Result<i32> {
    let status = status.context("the connection ended before the command did")?;
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default();
    let code = causes
        .iter()
        .find(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .and_then(|cause| cause.message.as_deref());
    match code {
        Some(code) => code.parse().with_context(|| format!("an exit code that is no number: {code:?}")),
        None => bail!("the command did not run: {}", status.message.as_deref().unwrap_or("no reason given")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: serde_json::Value) -> Status {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn success_is_zero() {
        assert_eq!(exit_code(Some(&status(serde_json::json!({"status": "Success"})))).unwrap(), 0);
    }

    #[test]
    fn the_code_of_a_failed_command_is_found_among_the_causes() {
        let failed = serde_json::json!({
            "status": "Failure", "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "42"}]},
        });
        assert_eq!(exit_code(Some(&status(failed))).unwrap(), 42);
    }

    #[test]
    fn a_command_that_never_ran_is_an_error_with_the_reason() {
        let failed = serde_json::json!({"status": "Failure", "message": "executable file not found"});
        let error = exit_code(Some(&status(failed))).unwrap_err();
        assert!(error.to_string().contains("executable file not found"), "{error}");
    }

    #[test]
    fn a_lost_connection_is_no_success() {
        assert!(exit_code(None).is_err());
    }
}
