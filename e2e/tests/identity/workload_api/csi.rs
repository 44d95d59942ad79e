//! The few messages of the kubelet's registration of plugins and of CSI that a driver of sockets needs, with the numbers of the
//! specifications, and a way to answer them. Pure.

use prost::Message;
use std::collections::HashMap;
use std::future::{Ready, ready};
use tonic::{Request, Response, Status, server::UnaryService};

#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// Answer to pluginregistration.Registration/GetInfo.
#[derive(Clone, PartialEq, Message)]
pub struct PluginInfo {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub endpoint: String,
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

/// Answer to csi.v1.Node/NodeGetInfo.
#[derive(Clone, PartialEq, Message)]
pub struct NodeInfo {
    #[prost(string, tag = "1")]
    pub node_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Publish {
    #[prost(string, tag = "4")]
    pub target_path: String,
    /// With the pod's name and namespace, as the CSIDriver asks for.
    #[prost(map = "string, string", tag = "8")]
    pub volume_context: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Unpublish {
    #[prost(string, tag = "2")]
    pub target_path: String,
}

/// A method that is a function.
pub struct Method<F>(pub F);

impl<Q, A, F: FnMut(Q) -> Result<A, Status>> UnaryService<Q> for Method<F> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(Response::new))
    }
}
