//! The ways into a pod: exec, logs, port-forward.

use anyhow::Context;
use e2e::{Scenario, Verdict, test::PATIENCE, workload};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

#[test]
fn exec_gives_both_streams_and_the_exit_code() -> anyhow::Result<()> {
    Scenario::named("exec-gives-both-streams-and-the-exit-code").run(async |test| {
        test.apply(&workload::echo_pod("server")).await?;
        test.wait_for_pod("server").await?;
        let output = test.exec_in("server", "echo", &["sh", "-c", "echo out; echo err >&2; exit 7"]).await?;
        assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.code), ("out\n", "err\n", 7));
        let large = test.exec("server", &["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"]).await?;
        assert_eq!((large.stdout.len(), large.code), (300_000, 0));
        let missing = test.exec("server", &["no-such-program"]).await;
        assert!(missing.as_ref().map_or(true, |output| output.code != 0), "{missing:?}");
        Ok(())
    })
}

#[test]
fn logs_hold_what_the_container_wrote() -> anyhow::Result<()> {
    Scenario::named("logs-hold-what-the-container-wrote").run(async |test| {
        test.apply(&workload::echo_pod("server")).await?;
        test.wait_for_pod("server").await?;
        test.wait_for("the server's greeting in its log", PATIENCE, async || {
            let logs = test.logs("server", "echo").await?;
            Ok(Verdict::when(logs.contains("Ready to accept connections"), || logs))
        })
        .await
    })
}

#[test]
fn a_forwarded_port_leads_into_the_pod() -> anyhow::Result<()> {
    Scenario::named("a-forwarded-port-leads-into-the-pod").run(async |test| {
        test.apply(&workload::echo_pod("server")).await?;
        test.wait_for_pod("server").await?;
        let direct = test.connect("server", workload::PORT).await?;
        assert_eq!(ping(direct).await?, "+PONG\r\n");
        let forward = test.forward("server", workload::PORT).await?;
        for _ in 0..2 {
            let stream = TcpStream::connect(forward.address).await.context("connect to the forwarded port")?;
            assert_eq!(ping(stream).await?, "+PONG\r\n");
        }
        let address = forward.address;
        drop(forward);
        test.wait_for("the forwarded port to close", PATIENCE, async || {
            let open = TcpStream::connect(address).await.is_ok();
            Ok(Verdict::when(!open, || "it still accepts".to_owned()))
        })
        .await
    })
}

async fn ping(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> anyhow::Result<String> {
    stream.write_all(b"PING\r\n").await?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
