//! A port into a pod, through the API server: works on any cluster, also where pod addresses cannot be reached. IO.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// One connection to a port of a pod.
pub async fn connect(
    pods: &Api<Pod>,
    pod: &str,
    port: u16,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>> {
    let mut forwarder =
        pods.portforward(pod, &[port]).await.with_context(|| format!("forward port {port} of {pod}"))?;
    forwarder.take_stream(port).context("the forwarder gave no stream")
}

/// A loopback address behind which every connection goes to the pod's port. Closed when dropped.
#[derive(Debug)]
pub struct Forward {
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Forward {
    pub async fn listen(pods: Api<Pod>, pod: &str, port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listen on loopback")?;
        let address = listener.local_addr().context("read the listener's address")?;
        let accepting = tokio::spawn(accept(listener, pods, pod.to_owned(), port));
        Ok(Self { address, accepting })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, pods: Api<Pod>, pod: String, port: u16) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((local, _)) = listener.accept().await {
        let (pods, pod) = (pods.clone(), pod.clone());
        connections.spawn(async move {
            if let Err(error) = carry(local, &pods, &pod, port).await {
                eprintln!("port-forward to {pod}:{port}: {error:#}");
            }
        });
    }
}

async fn carry(mut local: TcpStream, pods: &Api<Pod>, pod: &str, port: u16) -> Result<()> {
    let mut remote = connect(pods, pod, port).await?;
    tokio::io::copy_bidirectional(&mut local, &mut remote).await.context("carry bytes")?;
    Ok(())
}
